// What operators see of a server: probes, metrics, health checks, its log, and its end.
#include <signal.h>

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/side_streams.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

// A call of what is answered beside our own service, which goes on until it is destroyed.
class SideCall {
 public:
  SideCall(const ServerProcess& server, const std::string& method, std::string request = "")
      : stub_(grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials())),
        call_(stub_.PrepareCall(&Lasting(context_), method, &queue_)) {
    call_->StartCall(nullptr);
    Await();
    grpc::Slice slice(std::move(request));
    call_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    Await();
  }
  ~SideCall() {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  bool IsAnswered() {
    call_->Read(&answer_, nullptr);
    return Await();
  }
  // As the server ended it.
  grpc::Status End() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Await();
    return status;
  }

 private:
  // Not for ever, should the server not end what it is to end.
  static grpc::ClientContext& Lasting(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return context;
  }

  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::ByteBuffer answer_;
  const std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

class OperationsTest : public testing::Test {
 protected:
  // Of the operators' port, as the server says on which it is.
  static httplib::Client Admin(ServerProcess& server) {
    const std::string line = server.AwaitLine("probes and metrics on ");
    httplib::Client client(line.substr(line.rfind("http")));
    client.set_read_timeout(10);
    return client;
  }

  static int Status(httplib::Client& admin, const std::string& path) {
    const httplib::Result result = admin.Get(path.c_str());
    return result ? result->status : -1;
  }

  // Until it says so; false: it does not within half a minute.
  static bool Becomes(httplib::Client& admin, const std::string& path, int status) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < until) {
      if (Status(admin, path) == status) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  static double Metric(httplib::Client& admin, const std::string& name) {
    const httplib::Result result = admin.Get("/metrics");
    const std::string text = result ? result->body : "";
    const size_t at = text.find("\n" + name + "{");
    return at == std::string::npos ? -1 : std::stod(text.substr(text.find("} ", at) + 2));
  }

  // What grpc.health.v1 answers: 1 is SERVING, 2 is NOT_SERVING.
  static int Health(const ServerProcess& server, const std::string& service) {
    grpc::GenericStub stub(
        grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
    std::string request = service.empty() ? "" : "\x0A";  // field 1, a string
    if (!service.empty()) request += static_cast<char>(service.size()) + service;
    grpc::Slice slice(request);
    const grpc::ByteBuffer asked(&slice, 1);
    grpc::ByteBuffer answer;
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call =
        stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", asked, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!status.ok()) return -static_cast<int>(status.error_code());
    grpc::Slice read;
    OUTRIDER_CHECK(answer.DumpToSingleSlice(&read).ok(), "an answer is a message");
    return read.size() == 2 ? read.begin()[1] : 0;  // field 1, a number
  }

  static DraftedSession Session(RemoteVerifier& verifier, uint32_t tokens) {
    SessionOptions options;
    options.prompt = TheTokenizer().Encode("Once upon a time");
    options.stops.max_tokens = tokens;
    return DraftedSession(options, Damaged(), PolicyKind::kOurs, verifier);
  }

  static std::unique_ptr<RemoteVerifier> Connect(const ServerProcess& server) {
    return OrDie(RemoteVerifier::Connect(server.address()));
  }
};

TEST_F(OperationsTest, ProbesMetricsAndHealthTellOfAServersLife) {
  ServerProcess server(0, {"--sessions", "4", "--admin", "127.0.0.1:0", "--drain-seconds", "30"});
  httplib::Client admin = Admin(server);
  EXPECT_EQ(Status(admin, "/health/live"), 200);
  EXPECT_TRUE(Becomes(admin, "/health/ready", 200));
  EXPECT_EQ(Status(admin, "/other"), 404);
  EXPECT_EQ(Health(server, ""), 1);
  EXPECT_EQ(Health(server, "outrider.v1.Verifier"), 1);
  EXPECT_EQ(Health(server, "live"), 1);
  EXPECT_EQ(Health(server, "other"), -static_cast<int>(grpc::StatusCode::NOT_FOUND));

  const std::unique_ptr<RemoteVerifier> verifier = Connect(server);
  DraftedSession drafted = Session(*verifier, 12);
  Screen screen;
  ASSERT_TRUE(drafted.driver().Run(Session::Start{}, screen).ok());
  EXPECT_EQ(Metric(admin, "outrider:generation_tokens_total"), 12);
  EXPECT_EQ(Metric(admin, "outrider:num_requests_running"), 1);
  EXPECT_EQ(Metric(admin, "outrider:time_to_first_token_seconds_count"), 1);
  EXPECT_GT(Metric(admin, "outrider:message_bytes_total"), 0);

  // It is attached, but writes nothing: it does not keep the server.
  EXPECT_EQ(server.Stop(), 0);
  drafted.driver().Close();
  EXPECT_THAT(server.AwaitLine("draining"), HasSubstr("30 s left"));
  EXPECT_THAT(server.AwaitLine(" session session="), HasSubstr(" tokens=12 "));
}

constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
const std::string kListServices("\x3A\x00", 2);  // field 7, an empty string

// Nobody needs a key for them, and each takes memory for as long as its caller likes.
TEST_F(OperationsTest, OfWatchesAndReflectionAnAddressHasAFewAndChecksAsManyAsItLikes) {
  ServerProcess server(0, {"--sessions", "4"});
  std::deque<SideCall> calls;
  for (uint32_t i = 0; i < SideStreams::kOfOriginMax - 1; ++i) {
    EXPECT_TRUE(calls.emplace_back(server, kWatch).IsAnswered());
  }
  EXPECT_TRUE(calls.emplace_back(server, kReflection, kListServices).IsAnswered());
  for (const auto& [method, request] :
       {std::pair(kWatch, std::string()), std::pair(kReflection, kListServices)}) {
    SideCall refused(server, method, request);
    EXPECT_FALSE(refused.IsAnswered());
    const grpc::Status status = refused.End();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.error_message(), HasSubstr("this address may have no more than 16 streams"));
  }
  EXPECT_THAT(server.AwaitLine(" refused reason=streams_of_address"), HasSubstr("ipv4:127.0.0.1"));
  EXPECT_EQ(Health(server, "live"), 1);
  const std::unique_ptr<RemoteVerifier> verifier = Connect(server);
  EXPECT_TRUE(verifier->Describe().ok());

  calls.pop_front();  // and who leaves makes room
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!SideCall(server, kWatch).IsAnswered() && std::chrono::steady_clock::now() < until) {
  }
  EXPECT_LT(std::chrono::steady_clock::now(), until);
}

// As clients do that are made from the .proto.
TEST_F(OperationsTest, WhoWatchesIsToldWhatChanges) {
  using grpc::health::v1::HealthCheckResponse;
  ServerProcess server(0, {"--sessions", "4", "--drain-seconds", "30"});
  const auto health = grpc::health::v1::Health::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  const std::unique_ptr<RemoteVerifier> verifier = Connect(server);
  grpc::ClientContext contexts[3];
  grpc::health::v1::HealthCheckRequest request;
  const auto watch = [&](grpc::ClientContext& context, const std::string& service) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    request.set_service(service);
    return health->Watch(&context, request);
  };
  const auto ours = watch(contexts[0], "outrider.v1.Verifier");
  const auto live = watch(contexts[1], "live");
  const auto other = watch(contexts[2], "other");
  HealthCheckResponse response;
  EXPECT_TRUE(ours->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  EXPECT_TRUE(live->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  EXPECT_TRUE(other->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  kill(server.pid(), SIGTERM);
  EXPECT_TRUE(ours->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(live->Read(&response)) << "it was told of no change";
  EXPECT_EQ(server.AwaitEnd(), 0) << "nor do they keep it";
}

TEST_F(OperationsTest, ReflectionTellsOfAllServicesAndTheirMethods) {
  using namespace grpc::reflection::v1alpha;
  const ServerProcess server;
  const auto reflection = ServerReflection::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const auto stream = reflection->ServerReflectionInfo(&context);
  const auto answer = [&](const ServerReflectionRequest& request) {
    ServerReflectionResponse response;
    EXPECT_TRUE(stream->Write(request));
    EXPECT_TRUE(stream->Read(&response));
    return response;
  };
  ServerReflectionRequest request;
  request.set_list_services("");
  std::vector<std::string> services;
  const ListServiceResponse listed = answer(request).list_services_response();
  for (const ServiceResponse& service : listed.service()) services.push_back(service.name());
  EXPECT_THAT(services, testing::UnorderedElementsAre("grpc.health.v1.Health",
                                                      "grpc.reflection.v1alpha.ServerReflection",
                                                      "outrider.v1.Verifier"));
  for (const std::string& service : services) {
    request.set_file_containing_symbol(service);
    const auto files = answer(request).file_descriptor_response();
    ASSERT_EQ(files.file_descriptor_proto_size(), 1);
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(files.file_descriptor_proto(0)));
    ASSERT_EQ(file.service_size(), 1);
    EXPECT_EQ(file.package() + "." + file.service(0).name(), service);
    for (const auto& method : file.service(0).method()) {
      EXPECT_EQ(method.client_streaming(),
                method.name() == "Decode" || method.name() == "ServerReflectionInfo")
          << "as the .proto says, and not as it is registered: " << method.name();
    }
  }
  request.set_file_by_filename("outrider/v1/verifier.proto");
  EXPECT_EQ(answer(request).file_descriptor_response().file_descriptor_proto_size(), 1);
  request.set_file_by_filename("other.proto");
  EXPECT_EQ(answer(request).error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(OperationsTest, WhileItDrainsItIsLiveButNotReady) {
  ServerProcess server(
      0, {"--pass", "100", "--sessions", "4", "--admin", "127.0.0.1:0", "--drain-seconds", "60"},
      OUTRIDER_PACED_SERVER);
  httplib::Client admin = Admin(server);
  const std::unique_ptr<RemoteVerifier> verifier = Connect(server);
  DraftedSession drafted = Session(*verifier, 40);
  Screen screen;
  std::thread writer([&] { EXPECT_TRUE(drafted.driver().Run(Session::Start{}, screen).ok()); });
  while (Metric(admin, "outrider:generation_tokens_total") < 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(server.pid(), SIGTERM);
  EXPECT_TRUE(Becomes(admin, "/health/ready", 503));
  EXPECT_EQ(Status(admin, "/health/live"), 200);
  EXPECT_EQ(Health(server, ""), 2);
  EXPECT_EQ(Health(server, "live"), 1);
  EXPECT_EQ(Metric(admin, "outrider:draining"), 1);
  writer.join();
  drafted.driver().Close();
  EXPECT_EQ(server.AwaitEnd(), 0);
}

}  // namespace
}  // namespace outrider
