// With weights in F16 and BF16 a GPU's engine has bits of its own (kernels/split_products.h), and
// so is held to the laws of every engine with those too: what a row comes to depends on nothing but
// its tokens, to the bit.
#include <string>

#include "tests/engine/engine_contract.h"

namespace outrider {
namespace {

INSTANTIATE_TEST_SUITE_P(Floats, EngineContract, testing::Values("llama_BF16", "mistral_F16"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace outrider
