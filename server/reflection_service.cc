#include "server/reflection_service.h"

#include <set>
#include <utility>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpcpp/grpcpp.h"
#include "proto/grpc/reflection/v1alpha/reflection.pb.h"
#include "server/security/origin.h"
#include "server/streamed_service.h"

namespace outrider {

using google::protobuf::DescriptorPool;
using grpc::reflection::v1alpha::FileDescriptorResponse;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

namespace {

constexpr const char* kServices[] = {
    "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection", "outrider.v1.Verifier"};

// With what it imports, each once.
void AddFile(const google::protobuf::FileDescriptor& file,
             std::set<const google::protobuf::FileDescriptor*>& added,
             FileDescriptorResponse& response) {
  if (!added.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response.add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), added, response);
}

void SetError(grpc::StatusCode code, const char* message, ServerReflectionResponse& response) {
  response.mutable_error_response()->set_error_code(code);
  response.mutable_error_response()->set_error_message(message);
}

// Null: there is none.
void SetFile(const google::protobuf::FileDescriptor* file, ServerReflectionResponse& response) {
  if (file == nullptr) {
    return SetError(grpc::StatusCode::NOT_FOUND,
                    "nothing here has this name; list_services tells what there is", response);
  }
  std::set<const google::protobuf::FileDescriptor*> added;
  AddFile(*file, added, *response.mutable_file_descriptor_response());
}

void Answer(const ServerReflectionRequest& request, ServerReflectionResponse& response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  response.Clear();
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      return SetFile(pool.FindFileByName(request.file_by_filename()), response);
    case ServerReflectionRequest::kFileContainingSymbol:
      return SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()), response);
    case ServerReflectionRequest::kListServices:
      for (const char* const name : kServices) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      return;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      return SetError(grpc::StatusCode::INVALID_ARGUMENT,
                      "ask for file_by_filename, file_containing_symbol or list_services",
                      response);
  }
}

// Lives until its call is over. Something is being read or written all the time, and the end is where
// that fails.
class Reflection final
    : public grpc::ServerBidiReactor<ServerReflectionRequest, ServerReflectionResponse> {
 public:
  explicit Reflection(std::shared_ptr<ConnectionBook::Entry> connection)
      : connection_(std::move(connection)) {
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      if (!has_read_) connection_->Refuse();  // reset as soon as it was made
      return Finish(grpc::Status::OK);
    }
    has_read_ = true;
    Answer(request_, response_);
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::CANCELLED);
    StartRead(&request_);
  }

  void OnDone() override { delete this; }

  const std::shared_ptr<ConnectionBook::Entry> connection_;
  ServerReflectionRequest request_;
  ServerReflectionResponse response_;
  bool has_read_ = false;
};

}  // namespace

class ReflectionService::Implementation final : public StreamedService {
 public:
  explicit Implementation(const ConnectionBook& book) {
    Add<ServerReflectionRequest, ServerReflectionResponse>(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        [&book](const grpc::CallbackServerContext& context) {
          return new Reflection(book.Find(PeerOf(context.peer())));
        });
  }
};

ReflectionService::ReflectionService(const ConnectionBook& book)
    : implementation_(std::make_unique<Implementation>(book)) {}

ReflectionService::~ReflectionService() = default;

grpc::Service& ReflectionService::grpc() {
  return *implementation_;
}

}  // namespace outrider
