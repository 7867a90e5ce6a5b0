#include "common/text/jinja/objects.h"

namespace outrider::jinja {

absl::StatusOr<Bound> Bind(const Arguments& arguments,
                           std::initializer_list<std::string_view> parameters, size_t required) {
  if (arguments.positional.size() > parameters.size()) {
    return InvalidArgument("takes at most ", parameters.size(), " arguments, ",
                           arguments.positional.size(), " were given");
  }
  Bound bound(arguments.positional.begin(), arguments.positional.end());
  bound.resize(parameters.size());
  for (const auto& [name, value] : arguments.named) {
    size_t at = 0;
    while (at < parameters.size() && parameters.begin()[at] != name) ++at;
    if (at == parameters.size() || name.empty()) {
      return InvalidArgument("takes no keyword argument '", name, "'");
    }
    if (bound[at]) return InvalidArgument("got two values for the argument '", name, "'");
    bound[at] = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!bound[i]) return InvalidArgument("misses its argument ", i + 1);
  }
  return bound;
}

absl::StatusOr<const Value*> Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    OUTRIDER_RETURN_IF_ERROR(budget->ReadValues(scope->names.size()));
    for (const auto& [key, value] : scope->names) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

absl::Status Scope::Set(std::string_view name, Value value) {
  OUTRIDER_RETURN_IF_ERROR(budget->ReadValues(names.size()));
  for (auto& [key, old] : names) {
    if (key == name) {
      old = std::move(value);
      return absl::OkStatus();
    }
  }
  constexpr size_t kBytes = 2 * sizeof(names[0]);  // 2: what a vector may keep spare
  OUTRIDER_RETURN_IF_ERROR(budget->Reserve(kBytes));
  charged_bytes += kBytes;
  names.emplace_back(name, std::move(value));
  return absl::OkStatus();
}

RenderState::~RenderState() {
  // Whatever these lists hold stays alive until the list itself goes, so no chain of namespaces,
  // however long, is destroyed recursively.
  for (const std::shared_ptr<Namespace>& space : namespaces) space->attributes.clear();
  for (const std::shared_ptr<Scope>& scope : captured_scopes) scope->names.clear();
}

absl::StatusOr<std::shared_ptr<Namespace>> RenderState::NewNamespace() {
  OUTRIDER_ASSIGN_OR_RETURN(auto space, NewObject<Namespace>(budget, sizeof(namespaces[0])));
  namespaces.push_back(space);
  return space;
}

void RenderState::Capture(const std::shared_ptr<Scope>& scope) {
  for (std::shared_ptr<Scope> at = scope; at != nullptr && !at->captured; at = at->parent) {
    at->captured = true;
    captured_scopes.push_back(at);
  }
}

}  // namespace outrider::jinja
