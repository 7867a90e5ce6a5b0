// The method tables of single types; jinja_methods.cc picks one.
#pragma once

#include <span>

#include "common/text/jinja_methods.h"

namespace outrider::jinja {

std::span<const MethodEntry> StringMethods();

}  // namespace outrider::jinja
