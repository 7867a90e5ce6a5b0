#include "common/model/weights/type_speed.h"

#include <algorithm>
#include <vector>

#include "common/base/status.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {

std::string TypesWithoutKernels(const ModelFile& model) {
  std::vector<TensorType> types;
  for (const ModelTensor& tensor : model.tensors()) {
    const bool fast = tensor.dims.size() < 2 || HasPanels(tensor.type);
    if (!fast && std::ranges::find(types, tensor.type) == types.end()) types.push_back(tensor.type);
  }
  std::string names;
  for (const TensorType type : types) names += Concat(names.empty() ? "" : ", ", Name(type));
  return names;
}

std::string SlowTypesNotice(const ModelFile& model, const std::string& path) {
  const std::string types = TypesWithoutKernels(model);
  if (types.empty()) return {};
  return Concat(path, ": has matrices of ", types,
                ", which are decoded anew for every product, tens of times slower than types with "
                "kernels; `outrider convert ",
                path,
                " --out FAST.gguf --type q4_k` makes a file "
                "that is not");
}

}  // namespace outrider
