#include "server/decode_service.h"

#include <string>
#include <utility>

#include "common/base/random_bits.h"
#include "common/base/status.h"
#include "grpcpp/grpcpp.h"
#include "proto/outrider/v1/verifier.grpc.pb.h"
#include "server/generate_call.h"
#include "server/security/origin.h"

namespace outrider {
namespace {

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

// A call that is refused before it has begun.
template <typename Reactor>
class RefusedCall final : public Reactor {
 public:
  explicit RefusedCall(const absl::Status& status) { this->Finish(ToGrpc(status)); }

 private:
  void OnDone() override { delete this; }
};

// One attached device. gRPC calls it back until OnDone(); the driver's machine keeps it a little
// longer, until it has heard of that.
class DecodeStream final : public grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>,
                           public VerifierDriver::Stream {
 public:
  DecodeStream(VerifierDriver& driver, VerifierDriver::StreamNumber number,
               grpc::CallbackServerContext& context)
      : driver_(driver), number_(number), context_(context) {}

  void Read() override { StartRead(&up_); }
  void Send(const v1::ServerMessage& message) override { StartWrite(&message); }
  void End(const absl::Status& status, bool at_once) override {
    if (at_once) context_.TryCancel();  // else a reader that has stalled would hold it up
    Finish(ToGrpc(status));
  }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      driver_.Received(number_, up_);
    } else {
      driver_.Broken(number_);
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      driver_.Written(number_);
    } else {
      driver_.Broken(number_);
    }
  }

  // A read or write that is under way fails too, but there need not be one.
  void OnCancel() override { driver_.Broken(number_); }

  void OnDone() override { driver_.Ended(number_); }

  VerifierDriver& driver_;
  const VerifierDriver::StreamNumber number_;
  grpc::CallbackServerContext& context_;
  v1::ClientMessage up_;  // untouched from Read() to OnReadDone()
};

}  // namespace

class DecodeService::Implementation final : public v1::Verifier::CallbackService {
 public:
  Implementation(VerifierDriver& driver, v1::DescribeResponse description, const Gatekeeper& gate)
      : driver_(driver), description_(std::move(description)), gate_(gate) {}

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* /*request*/,
                                     v1::DescribeResponse* response) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const auto caller = Admit(*context);
    if (caller.ok()) *response = description_;
    reactor->Finish(ToGrpc(caller.status()));
    return reactor;
  }

  grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>* Decode(
      grpc::CallbackServerContext* context) override {
    auto caller = Admit(*context);
    if (!caller.ok()) return new RefusedCall<DecodeReactor>(caller.status());
    const VerifierDriver::StreamNumber number = driver_.NextNumber();
    auto stream = std::make_unique<DecodeStream>(driver_, number, *context);
    DecodeStream* const reactor = stream.get();
    driver_.Open(number, std::move(stream), std::move(caller->name), caller->terms,
                 OriginOf(context->peer()));
    return reactor;
  }

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override {
    auto caller = Admit(*context);
    if (!caller.ok()) return new RefusedCall<GenerateReactor>(caller.status());
    auto generation = Generation::Create(*request, RandomBits(), description_.drafts());
    if (!generation.ok()) return new RefusedCall<GenerateReactor>(generation.status());
    const VerifierDriver::StreamNumber number = driver_.NextNumber();
    auto call = std::make_unique<GenerateCall>(driver_, number, *std::move(generation));
    GenerateCall* const reactor = call.get();
    driver_.Open(number, std::move(call), std::move(caller->name), caller->terms,
                 OriginOf(context->peer()));
    return reactor;
  }

 private:
  using DecodeReactor = grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>;
  using GenerateReactor = grpc::ServerWriteReactor<v1::GenerateResponse>;

  // A caller is known by its key: a device's address changes as it moves.
  absl::StatusOr<Gatekeeper::Caller> Admit(const grpc::CallbackServerContext& context) const {
    const auto& metadata = context.client_metadata();
    const auto found = metadata.find("authorization");
    if (found == metadata.end()) return gate_.Admit("");
    return gate_.Admit({found->second.data(), found->second.size()});
  }

  VerifierDriver& driver_;
  const v1::DescribeResponse description_;
  const Gatekeeper& gate_;
};

DecodeService::DecodeService(VerifierDriver& driver, v1::DescribeResponse description,
                             const Gatekeeper& gate)
    : implementation_(std::make_unique<Implementation>(driver, std::move(description), gate)) {}

DecodeService::~DecodeService() = default;

grpc::Service& DecodeService::grpc() {
  return *implementation_;
}

}  // namespace outrider
