#include "server/decode_service.h"

#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "grpcpp/grpcpp.h"
#include "proto/outrider/v1/verifier.pb.h"
#include "server/generate_call.h"
#include "server/security/origin.h"
#include "server/streamed_service.h"

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

class DecodeService::Implementation final : public StreamedService {
 public:
  Implementation(VerifierDriver& driver, v1::DescribeResponse description, const Gatekeeper& gate,
                 const ConnectionBook& book, EntranceLog& entrance)
      : driver_(driver),
        description_(std::move(description)),
        gate_(gate),
        book_(book),
        entrance_(entrance) {
    Add<v1::DescribeRequest, v1::DescribeResponse>(
        "/outrider.v1.Verifier/Describe",
        [this](grpc::CallbackServerContext& context) { return Describe(context); });
    Add<v1::ClientMessage, v1::ServerMessage>(
        "/outrider.v1.Verifier/Decode",
        [this](grpc::CallbackServerContext& context) { return Decode(context); });
    Add<v1::GenerateRequest, v1::GenerateResponse>(
        "/outrider.v1.Verifier/Generate",
        [this](grpc::CallbackServerContext& context) { return Generate(context); });
  }

 private:
  using DescribeReactor = grpc::ServerBidiReactor<v1::DescribeRequest, v1::DescribeResponse>;
  using DecodeReactor = grpc::ServerBidiReactor<v1::ClientMessage, v1::ServerMessage>;
  using GenerateReactor = grpc::ServerBidiReactor<v1::GenerateRequest, v1::GenerateResponse>;

  DescribeReactor* Describe(const grpc::CallbackServerContext& context) {
    const absl::Status status = LetIn(context, [](const Gatekeeper::Caller&) {});
    if (!status.ok()) return new RefusedCall<DescribeReactor>(status);
    return new OneAnswer<v1::DescribeRequest, v1::DescribeResponse>(
        ConnectionOf(context),
        [this](const v1::DescribeRequest& /*request*/, v1::DescribeResponse& response) {
          response = description_;
          return grpc::Status::OK;
        });
  }

  DecodeReactor* Decode(grpc::CallbackServerContext& context) {
    const VerifierDriver::StreamNumber number = driver_.NextNumber();
    return Open<DecodeReactor>(
        context, number,
        std::make_unique<DecodeStream>(driver_, number, context, ConnectionOf(context)));
  }

  GenerateReactor* Generate(grpc::CallbackServerContext& context) {
    const VerifierDriver::StreamNumber number = driver_.NextNumber();
    return Open<GenerateReactor>(
        context, number,
        std::make_unique<GenerateCall>(driver_, number, context, ConnectionOf(context),
                                       description_.drafts()));
  }

  // Who is let in has it until it has ended.
  template <typename Reactor, typename Stream>
  Reactor* Open(const grpc::CallbackServerContext& context, VerifierDriver::StreamNumber number,
                std::unique_ptr<Stream> stream) {
    Stream* const reactor = stream.get();
    const absl::Status status = LetIn(context, [&](Gatekeeper::Caller caller) {
      driver_.Open(number, std::move(stream), std::move(caller.identity), caller.terms,
                   OriginOf(context.peer()));
    });
    if (!status.ok()) return new RefusedCall<Reactor>(status);
    return reactor;
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
