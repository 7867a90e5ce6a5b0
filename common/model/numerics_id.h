// What decides the bits a target computes, as one number: targets of one id give the same tokens.
//
//   id = hash(contract version, backend class, KV type, what the model is, the model's bytes)
//
// The contract's version is the one that last changed a rule this model takes: types that get a
// kernel change the ids of models that have them, and no other's.
//
// The backend class is "cpu" for every CPU: NUMERICS.md makes them agree, x86 and Arm, for integer
// and for float weights. On a GPU it is "cuda", says where sums are cut, and names the generation where float weights are
// multiplied in its own order of additions (cuda/gpu_engine.cc). How many threads run, how rows are batched and where weights come from is
// no part of it. It is shown at every handshake; a session that moves to another id says so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/model/model_spec.h"

namespace outrider {

class NumericsId {
 public:
  // `content_hash` is of the tensors (ResidentWeights::content_hash). The numbers of the spec that
  // enter the computation are hashed with it, the model's name is not.
  static NumericsId Of(const ModelSpec& spec, uint64_t content_hash, std::string_view backend_class,
                       std::string_view kv_type);

  uint64_t value() const { return value_; }
  std::string ToString() const;  // sixteen hexadecimal digits

  bool operator==(const NumericsId&) const = default;

 private:
  uint64_t value_ = 0;
};

}  // namespace outrider
