// The method tables of single types; methods.cc picks one.
#pragma once

#include <span>

#include "common/text/jinja/methods.h"

namespace outrider::jinja {

std::span<const MethodEntry> StringMethods();

}  // namespace outrider::jinja
