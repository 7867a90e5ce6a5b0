// Which type each tensor of a model gets when the whole is converted to one.
//
// "Q4_0" or "Q4_K" names a mix, not a type: norms, biases and routers stay F32 (they are small and
// touch everything), the output matrix gets more bits than the rest, and in a Q4_K, Q5_K or IQ4_XS
// file so do the value and down projections of the layers where that pays (llama.cpp's Q4_K_M,
// Q5_K_M and IQ4_XS, made without an importance matrix). Rows that are no whole super-blocks fall
// back to blocks of 32 of about the same bits, or to F16.
#pragma once

#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/model_file.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {

// True for tensors that are F32 in every file: vectors, routers, position tables.
bool StaysF32(const ModelTensor& tensor);

// The type of `tensor` in a file of mix `wanted`: F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K or
// IQ4_XS.
TensorType MixedType(const ModelTensor& tensor, const Hyperparameters& numbers, TensorType wanted);

// general.file_type of such a file, as llama.cpp numbers them.
uint32_t FileTypeNumber(TensorType wanted);

}  // namespace outrider
