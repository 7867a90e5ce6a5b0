#include "server/decode_service.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
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
               grpc::CallbackServerContext& context,
               std::shared_ptr<ConnectionBook::Entry> connection)
      : driver_(driver), number_(number), context_(context), connection_(std::move(connection)) {}

  void Read() override { StartRead(&up_); }
  void Send(const v1::ServerMessage& message) override { StartWrite(&message); }
  void End(const absl::Status& status, bool at_once) override {
    connection_->End(status);
    if (at_once) context_.TryCancel();  // else a reader that has stalled would hold it up
    Finish(ToGrpc(status));
  }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      has_read_ = true;
      connection_->ExplainMessage(up_.ByteSizeLong());
      driver_.Received(number_, up_);
    } else {
      if (!has_read_) connection_->Refuse();  // reset as soon as it was made, or no message of ours
      driver_.Broken(number_);
    }
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      connection_->ExplainMessage(0);
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
  const std::shared_ptr<ConnectionBook::Entry> connection_;
  v1::ClientMessage up_;  // untouched from Read() to OnReadDone()
  bool has_read_ = false;
};

}  // namespace

class DecodeService::Implementation final : public v1::Verifier::CallbackService {
 public:
  Implementation(VerifierDriver& driver, v1::DescribeResponse description, const Gatekeeper& gate,
                 const ConnectionBook& book, EntranceLog& entrance)
      : driver_(driver),
        description_(std::move(description)),
        gate_(gate),
        book_(book),
        entrance_(entrance) {}

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* /*request*/,
                                     v1::DescribeResponse* response) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const absl::Status status =
        LetIn(*context, [&](const Gatekeeper::Caller&) { *response = description_; });
    reactor->Finish(ToGrpc(status));
    return reactor;
  }

  grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>* Decode(
      grpc::CallbackServerContext* context) override {
    const VerifierDriver::StreamNumber number = driver_.NextNumber();
    auto stream = std::make_unique<DecodeStream>(driver_, number, *context, ConnectionOf(*context));
    DecodeStream* const reactor = stream.get();
    const absl::Status status = Open(*context, number, std::move(stream));
    if (!status.ok()) return new RefusedCall<DecodeReactor>(status);
    return reactor;
  }

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override {
    const absl::Status known = LetIn(*context, [](const Gatekeeper::Caller&) {});
    if (!known.ok()) return new RefusedCall<GenerateReactor>(known);
    const std::shared_ptr<ConnectionBook::Entry> connection = ConnectionOf(*context);
    connection->ExplainMessage(request->ByteSizeLong());
    auto generation = Generation::Create(*request, RandomBits(), description_.drafts());
    if (!generation.ok()) return new RefusedCall<GenerateReactor>(generation.status());
    const VerifierDriver::StreamNumber number = driver_.NextNumber();
    auto call = std::make_unique<GenerateCall>(driver_, number, *context, connection,
                                               *std::move(generation));
    GenerateCall* const reactor = call.get();
    const absl::Status status = Open(*context, number, std::move(call));
    if (!status.ok()) return new RefusedCall<GenerateReactor>(status);
    return reactor;
  }

 private:
  using DecodeReactor = grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>;
  using GenerateReactor = grpc::ServerWriteReactor<v1::GenerateResponse>;

  absl::Status Open(const grpc::CallbackServerContext& context, VerifierDriver::StreamNumber number,
                    std::unique_ptr<VerifierDriver::Stream> stream) {
    return LetIn(context, [&](Gatekeeper::Caller caller) {
      driver_.Open(number, std::move(stream), std::move(caller.identity), caller.terms,
                   OriginOf(context.peer()));
    });
  }

  // A caller is known by its key: a device's address changes as it moves.
  absl::Status LetIn(const grpc::CallbackServerContext& context,
                     absl::FunctionRef<void(Gatekeeper::Caller)> tell) {
    const auto& metadata = context.client_metadata();
    const auto found = metadata.find("authorization");
    const bool has_key = found != metadata.end();
    const std::string_view authorization =
        has_key ? std::string_view(found->second.data(), found->second.size()) : "";
    absl::Status status = gate_.LetIn(authorization, tell);
    if (status.ok()) {
      ConnectionOf(context)->LetIn();
    } else {
      ConnectionOf(context)->Refuse();
      entrance_.Refused(has_key ? Refusal::kUnknownKey : Refusal::kNoKey, "",
                        OriginOf(context.peer()));
    }
    return status;
  }

  std::shared_ptr<ConnectionBook::Entry> ConnectionOf(
      const grpc::CallbackServerContext& context) const {
    return book_.Find(PeerOf(context.peer()));
  }

  VerifierDriver& driver_;
  const v1::DescribeResponse description_;
  const Gatekeeper& gate_;
  const ConnectionBook& book_;
  EntranceLog& entrance_;
};

DecodeService::DecodeService(VerifierDriver& driver, v1::DescribeResponse description,
                             const Gatekeeper& gate, const ConnectionBook& book,
                             EntranceLog& entrance)
    : implementation_(
          std::make_unique<Implementation>(driver, std::move(description), gate, book, entrance)) {}

DecodeService::~DecodeService() = default;

grpc::Service& DecodeService::grpc() {
  return *implementation_;
}

}  // namespace outrider
