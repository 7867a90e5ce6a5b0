// Who is let in to a server, and by what: keys, certificates, and what is said to all others.
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "server/security/gatekeeper.h"
#include "server/security/keys.h"
#include "tests/base/scratch_dir.h"
#include "tests/client/stories_world.h"
#include "tests/remote/device_line.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kOver = std::filesystem::copy_options::overwrite_existing;

// --- keys ---

TEST(KeysTest, AMadeKeyOpensItsLine) {
  const std::string key = NewKey();
  EXPECT_NE(key, NewKey());
  const Keys keys =
      OrDie(Keys::Parse(Concat("# those\n", LineOf("robot-7", key),
                               " sessions=4 opens-per-minute=30 share=3 # its limits\n",
                               LineOf("phone", NewKey()), "\r\n"),
                        "keys"));
  ASSERT_EQ(keys.size(), 2u);
  const Keys::Key* const found = keys.Find(key);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->name, "robot-7");
  EXPECT_EQ(found->terms, (CallerTerms{.sessions_max = 4, .opens_per_minute = 30, .share = 3}));
  EXPECT_EQ(keys.Find(key + "0"), nullptr);
  EXPECT_EQ(keys.Find(""), nullptr);
  // That of another tool.
  const Keys others = OrDie(Keys::Parse(
      "a sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "keys"));
  EXPECT_NE(others.Find("test"), nullptr);
}

TEST(KeysTest, WhatIsWrongIsSaidWithItsLine) {
  const auto error = [](const std::string& text) {
    return std::string(Message(Keys::Parse(text, "keys").status()));
  };
  const std::string line = LineOf("robot", "secret");
  EXPECT_EQ(error(""), "keys: has no keys, so nobody could call");
  EXPECT_THAT(error("\nrobot\n"), HasSubstr("keys:2: after the name comes sha256:"));
  EXPECT_THAT(error("robot sha256:12"), HasSubstr("keys:1: after the name comes sha256:"));
  EXPECT_THAT(error("ro/bot sha256:12"), HasSubstr("'ro/bot' is no name"));
  EXPECT_THAT(error(line + " sessions=0"), HasSubstr("'sessions=0' is no limit"));
  EXPECT_THAT(error(line + " share=1001"), HasSubstr("'share=1001' is no limit"));
  EXPECT_THAT(error(line + " share=0"), HasSubstr("'share=0' is no limit"));
  EXPECT_THAT(error(line + "\n" + line), HasSubstr("keys:2: there is another key named robot"));
}

// What is wrong goes to the log, where a key is none any more.
TEST(KeysTest, AKeyInPlaceOfItsHashIsNotRepeated) {
  const std::string key = NewKey();
  const std::string line = LineOf("robot", key);
  for (const std::string& wrong : {key, "robot " + key, "robot sha256:" + key, line + " " + key,
                                   line + " key=" + key, key + " " + line}) {
    const std::string error(Message(Keys::Parse(Concat("\n", wrong), "keys").status()));
    EXPECT_THAT(error, HasSubstr("keys:2: a key itself stands here"));
    EXPECT_THAT(error, Not(HasSubstr(key.substr(4, 8))));
  }
}

// --- a server ---

class SecurityTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = dir_.File(name);
    std::ofstream(path) << text;
    return path;
  }

  // How a reply over such a link ends; if well, it is the target's.
  static absl::Status Reply(const ServerProcess& server, const LinkSecurity& security,
                            uint32_t tokens = 12) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<RemoteVerifier> verifier,
                              RemoteVerifier::Connect(server.address(), security));
    OUTRIDER_RETURN_IF_ERROR(verifier->Describe().status());
    SessionOptions options;
    options.prompt = TheTokenizer().Encode("Once upon a time");
    options.stops.max_tokens = tokens;
    DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier);
    Screen screen;
    OUTRIDER_RETURN_IF_ERROR(drafted.driver().Run(Session::Start{}, screen));
    EXPECT_EQ(screen.Take(), Alone(options.prompt, {}, options.stops, false).text);
    drafted.driver().Close();
    return absl::OkStatus();
  }

  // What a server says that does not start.
  static std::string Refusal(const std::string& flags) {
    const std::string command =
        Concat(OUTRIDER_SERVER, " --model ", Stories(), " ", flags, " 2>&1");
    FILE* const program = popen(command.c_str(), "r");
    OUTRIDER_CHECK(program != nullptr, "a program starts");
    std::string said;
    for (int letter = 0; (letter = fgetc(program)) != EOF;) said += static_cast<char>(letter);
    EXPECT_EQ(WEXITSTATUS(pclose(program)), 1) << said;
    return said;
  }

  ScratchDir dir_;
};

TEST_F(SecurityTest, WithoutAKeyNobodyIsLetIn) {
  const std::string key = NewKey();
  const ServerProcess server(0, {"--keys", Write("keys", LineOf("robot", key))});
  EXPECT_TRUE(Reply(server, {.key = key}).ok());
  EXPECT_TRUE(Reply(server, {.key_file = Write("key", key + "\n")}).ok());
  // A flag goes before the environment.
  EXPECT_TRUE(Reply(server, {.key = NewKey(), .key_file = Write("key", key + "\n")}).ok());
  const absl::Status none = Reply(server, {});
  EXPECT_EQ(none.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(none.message()), HasSubstr("asks for a key"));
  const absl::Status wrong = Reply(server, {.key = NewKey()});
  EXPECT_EQ(wrong.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("does not know the device's key"));
}

// Hangs up once the first text has come, from another thread.
class Shown final : public SessionDriver::Observer {
 public:
  explicit Shown(std::function<void()> then) : then_(std::move(then)) {}

  void OnText(std::string_view) override {
    if (then_) std::exchange(then_, nullptr)();
  }
  void OnPromptProgress(uint32_t, uint32_t) override {}
  void OnReport(const absl::Status&) override {}
  bool Interrupted() override { return false; }

 private:
  std::function<void()> then_;
};

TEST_F(SecurityTest, WhoseKeyIsWithdrawnInMidSessionIsToldSoAndEnds) {
  const std::string kept = NewKey();
  const std::string withdrawn = NewKey();
  const std::string path =
      Write("keys", Concat(LineOf("kept", kept), "\n", LineOf("gone", withdrawn)));
  const ServerProcess server(0, {"--keys", path, "--pass", "30"}, OUTRIDER_PACED_SERVER);
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address(), {.key = withdrawn}));
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.stops.max_tokens = 150;
  Shown shown([&] {
    Write("keys", LineOf("kept", kept));
    kill(server.pid(), SIGHUP);
  });
  {  // its draft, whose pool the next ones use, is at rest when it is gone
    DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier);
    const absl::Status status = drafted.driver().Run(Session::Start{}, shown);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("not valid any more"));
  }
  EXPECT_TRUE(Reply(server, {.key = kept}, 4).ok());
  EXPECT_FALSE(Reply(server, {.key = withdrawn}, 4).ok());
  // A file that is no good changes nothing.
  Write("keys", "what is this");
  kill(server.pid(), SIGHUP);
  EXPECT_TRUE(Reply(server, {.key = kept}, 4).ok());
}

// What is said to the first message of a stream, which is over then; its session stays.
v1::ServerMessage AnswerToOpen(Verifier& verifier, uint64_t number) {
  DeviceLine line(verifier, number);
  line.Say(WaitingOpen(number, TheTokenizer().Encode("Once")));
  return line.Hear(DeviceLine::Kind::kOpened);
}

TEST_F(SecurityTest, OfAKeyThereAreAsManySessionsAtATimeAsItsLineSays) {
  const std::string key = NewKey();
  const std::string other = NewKey();
  const ServerProcess server(
      0, {"--keys",
          Write("keys", Concat(LineOf("robot", key), " sessions=1\n", LineOf("other", other)))});
  const auto robot = OrDie(RemoteVerifier::Connect(server.address(), {.key = key}));
  const auto others = OrDie(RemoteVerifier::Connect(server.address(), {.key = other}));
  DeviceLine first(*robot, 1);
  first.Say(WaitingOpen(1, TheTokenizer().Encode("Once")));
  ASSERT_TRUE(first.Hear(DeviceLine::Kind::kOpened).has_opened());
  const v1::Fault refused = AnswerToOpen(*robot, 2).fault();
  EXPECT_EQ(refused.kind(), v1::Fault::OVERLOADED);
  EXPECT_THAT(refused.message(), HasSubstr("this key may have no more than 1 at a time"));
  EXPECT_GT(refused.retry_ms(), 0u);
  EXPECT_TRUE(AnswerToOpen(*others, 1).has_opened());
  EXPECT_TRUE(AnswerToOpen(*others, 2).has_opened()) << "its line says nothing";

  v1::ClientMessage close;
  close.mutable_close();
  first.Say(close);
  v1::ServerMessage next;
  for (uint64_t number = 3; number < 1000 && !next.has_opened(); ++number) {
    next = AnswerToOpen(*robot, number);  // what the target is at with the first one may be to end
    EXPECT_TRUE(next.has_opened() || next.fault().kind() == v1::Fault::OVERLOADED);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(next.has_opened());
}

TEST_F(SecurityTest, OfAKeyAreAsManyOpenedAMinuteAsItsLineSays) {
  const std::string key = NewKey();
  const ServerProcess server(
      0, {"--keys", Write("keys", LineOf("robot", key) + " opens-per-minute=2")});
  EXPECT_TRUE(Reply(server, {.key = key}).ok());
  EXPECT_TRUE(Reply(server, {.key = key}).ok());
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address(), {.key = key}));
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.stops.max_tokens = 4;
  options.link.patience = std::chrono::milliseconds(500);
  DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier);
  Screen screen;
  EXPECT_FALSE(drafted.driver().Run(Session::Start{}, screen).ok());
}

TEST_F(SecurityTest, WhoeverHasTheNewKeyOfANameIsNotThrownOutWithTheOldOne) {
  const std::string old_key = NewKey();
  const std::string new_key = NewKey();
  const std::string path = Write("keys", LineOf("robot", old_key));
  ServerProcess server(0, {"--keys", path, "--pass", "30"}, OUTRIDER_PACED_SERVER);
  Write("keys", LineOf("robot", new_key));
  kill(server.pid(), SIGHUP);
  EXPECT_NE(server.AwaitLine("a key of robot is not valid any more"), "");
  EXPECT_TRUE(Reply(server, {.key = new_key}, 4).ok());
  EXPECT_FALSE(Reply(server, {.key = old_key}, 4).ok());
}

TEST_F(SecurityTest, WhatAServerCannotHaveIsSaidInASentence) {
  EXPECT_THAT(Refusal("--admin 0.0.0.0:0"), HasSubstr("or say --admin-open"));
  const ServerProcess server(0, {"--admin", "0.0.0.0:0", "--admin-open"});
  EXPECT_THAT(Refusal("--listen " + server.address()), HasSubstr("the port is in use"));
  EXPECT_THAT(Refusal("--admin " + server.address()), HasSubstr("choose another (--admin)"));
  EXPECT_THAT(Refusal("--listen 192.0.2.1:0 --insecure"),
              HasSubstr("the host is not this machine's"));
  EXPECT_THAT(Refusal("--keys " + dir_.File("")), HasSubstr("cannot be read"));
}

TEST_F(SecurityTest, OthersDoNotReachAServerWithoutTlsUnlessSomebodyInsists) {
  EXPECT_THAT(Refusal("--listen 0.0.0.0:0"),
              HasSubstr("give --tls-cert and --tls-key, or say --insecure"));
  const auto verifier = RemoteVerifier::Connect("192.0.2.1:7373");
  EXPECT_THAT(std::string(verifier.status().message()),
              HasSubstr("give --tls or --ca, or say --insecure"));
  EXPECT_TRUE(RemoteVerifier::Connect("192.0.2.1:7373", {.insecure = true}).ok());
}

// --- certificates ---

class TlsTest : public SecurityTest {
 protected:
  TlsTest() {
    MakeCa("ca");
    MakeCa("other");
    Make("server", "ca");
    Make("device", "ca");
    Make("stranger", "other");
  }

  std::string Pem(const std::string& name) const { return dir_.File(name + ".pem"); }
  std::string Key(const std::string& name) const { return dir_.File(name + ".key"); }

  // A copy of the server's certificate that was valid until a minute ago.
  std::string Expired() {
    FILE* file = fopen(Pem("server").c_str(), "r");
    X509* const certificate = PEM_read_X509(file, nullptr, nullptr, nullptr);
    fclose(file);
    file = fopen(Key("ca").c_str(), "r");
    EVP_PKEY* const key = PEM_read_PrivateKey(file, nullptr, nullptr, nullptr);
    fclose(file);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate), -60);
    OUTRIDER_CHECK(X509_sign(certificate, key, EVP_sha256()) > 0, "a key signs");
    file = fopen(Pem("expired").c_str(), "w");
    PEM_write_X509(file, certificate);
    fclose(file);
    EVP_PKEY_free(key);
    X509_free(certificate);
    return Pem("expired");
  }

 private:
  void Openssl(const std::string& arguments) {
    const std::string command =
        Concat("cd ", dir_.File(""), " && openssl ", arguments, " 2>openssl.log");
    OUTRIDER_CHECK(std::system(command.c_str()) == 0, "openssl makes certificates");
  }
  static constexpr char kNewKey[] = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

  void MakeCa(const std::string& name) {
    Openssl(Concat("req -x509 ", kNewKey, " -days 2 -subj /CN=", name, " -keyout ", name,
                   ".key -out ", name, ".pem"));
  }
  void Make(const std::string& name, const std::string& ca) {
    Write("names", "subjectAltName=IP:127.0.0.1");
    Openssl(Concat("req ", kNewKey, " -subj /CN=", name, " -keyout ", name, ".key -out ", name,
                   ".csr"));
    Openssl(Concat("x509 -req -days 2 -in ", name, ".csr -CA ", ca, ".pem -CAkey ", ca,
                   ".key -CAcreateserial -extfile names -out ", name, ".pem"));
  }
};

TEST_F(TlsTest, TheServerIsWhoItsCertificateSays) {
  const ServerProcess server(0, {"--tls-cert", Pem("server"), "--tls-key", Key("server")});
  EXPECT_TRUE(Reply(server, {.ca = Pem("ca")}).ok());
  EXPECT_EQ(Reply(server, {.ca = Pem("other")}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Reply(server, {}).code(), absl::StatusCode::kUnavailable) << "it speaks TLS alone";
  // Versions before 1.2 are not spoken; a stock client sees that.
  const auto shakes_hands = [&](const std::string& version) {
    const std::string command =
        Concat("echo | openssl s_client -alpn h2 -connect ", server.address(), " ", version,
               " 2>&1 | grep -q 'Cipher is [^(]'");
    return std::system(command.c_str()) == 0;
  };
  EXPECT_TRUE(shakes_hands("-tls1_2"));
  EXPECT_TRUE(shakes_hands("-tls1_3"));
  EXPECT_FALSE(shakes_hands("-tls1_1 -cipher DEFAULT@SECLEVEL=0"));
}

// What a device is told names what is wrong and what to do, in our words.
TEST_F(TlsTest, WhoIsNotLetThroughIsToldWhy) {
  const auto told = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(Message(status)), Not(ContainsRegex("SSL|ipv4|UNKNOWN")));
    return std::string(Message(status));
  };
  {
    const ServerProcess server(0, {"--tls-cert", Pem("server"), "--tls-key", Key("server")});
    EXPECT_THAT(told(Reply(server, {.ca = Pem("other")})),
                AllOf(HasSubstr(server.address()), HasSubstr("given by --ca does not vouch for")));
    EXPECT_THAT(told(Reply(server, {.tls = true})), HasSubstr("this machine's roots"));
    EXPECT_THAT(told(Reply(server, {})), HasSubstr("speaks TLS alone, give --tls"));
    const auto by_name =
        OrDie(RemoteVerifier::Connect(Concat("localhost:", server.port()), {.ca = Pem("ca")}));
    EXPECT_THAT(told(by_name->Describe().status()), HasSubstr("certificate for another name"));
  }
  {
    const ServerProcess server;
    EXPECT_THAT(told(Reply(server, {.ca = Pem("ca")})), HasSubstr("speaks no TLS"));
  }
  const ServerProcess server(
      0, {"--tls-cert", Pem("server"), "--tls-key", Key("server"), "--tls-client-ca", Pem("ca")});
  EXPECT_THAT(told(Reply(server, {.ca = Pem("ca")})), HasSubstr("give --cert and --cert-key"));
  const LinkSecurity stranger = {
      .ca = Pem("ca"), .certificate = Pem("stranger"), .certificate_key = Key("stranger")};
  EXPECT_THAT(told(Reply(server, stranger)), HasSubstr("does not take the certificate"));
}

TEST_F(TlsTest, ACertificateThatChangesIsServedAndWhoIsThereGoesOn) {
  const auto put = [&](const std::string& name) {
    std::filesystem::copy_file(Pem(name), Pem("current"), kOver);
    std::filesystem::copy_file(Key(name), Key("current"), kOver);
  };
  put("server");
  ServerProcess server(0,
                       {"--tls-cert", Pem("current"), "--tls-key", Key("current"), "--pass", "30"},
                       OUTRIDER_PACED_SERVER);
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address(), {.ca = Pem("ca")}));
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.stops.max_tokens = 150;
  DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier);
  bool is_served = false;
  Shown shown([&] {
    put("stranger");  // whom another authority vouches for
    kill(server.pid(), SIGHUP);
    for (int i = 0; i < 100 && !is_served; ++i) {
      const auto other = OrDie(RemoteVerifier::Connect(server.address(), {.ca = Pem("other")}));
      is_served = other->Describe().ok();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  const absl::Status status = drafted.driver().Run(Session::Start{}, shown);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(is_served);
  EXPECT_EQ(drafted.session().stats().attachments, 1u) << "it went on over the same connection";
  EXPECT_FALSE(Reply(server, {.ca = Pem("ca")}).ok()) << "the old one is not served any more";
  EXPECT_NE(server.AwaitLine("certificates that have changed"), "");
  // One that is no good is said to be, and what was good before is served on.
  std::filesystem::copy_file(Key("server"), Key("current"), kOver);
  EXPECT_THAT(server.AwaitLine("certificates stay as they are: "),
              HasSubstr("is not the key of the certificate"));
  std::this_thread::sleep_for(std::chrono::seconds(3));  // gRPC looks every second
  EXPECT_TRUE(Reply(server, {.ca = Pem("other")}, 4).ok());
  put("server");
  bool is_served_again = false;
  for (int i = 0; i < 100 && !is_served_again; ++i) {
    is_served_again = Reply(server, {.ca = Pem("ca")}, 4).ok();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(is_served_again);
}

TEST_F(TlsTest, ACertificateOfTheDeviceMeansTls) {
  const ServerProcess server;
  const LinkSecurity security = {.certificate = Pem("device"), .certificate_key = Key("device")};
  EXPECT_FALSE(Reply(server, security).ok()) << "what it is for is not left out without a word";
}

TEST_F(TlsTest, DevicesNeedCertificatesWhereTheServerAsksForThem) {
  const ServerProcess server(
      0, {"--tls-cert", Pem("server"), "--tls-key", Key("server"), "--tls-client-ca", Pem("ca")});
  const auto device = [&](const std::string& name) {
    return LinkSecurity{.ca = Pem("ca"), .certificate = Pem(name), .certificate_key = Key(name)};
  };
  EXPECT_TRUE(Reply(server, device("device")).ok());
  EXPECT_FALSE(Reply(server, device("stranger")).ok());
  EXPECT_FALSE(Reply(server, {.ca = Pem("ca")}).ok());
}

TEST_F(TlsTest, WhatIsWrongWithCertificatesIsSaidBeforeAnythingIsServed) {
  const auto refusal = [&](const std::string& certificate, const std::string& key) {
    return Refusal(Concat("--tls-cert ", certificate, " --tls-key ", key));
  };
  EXPECT_THAT(refusal(Expired(), Key("server")), HasSubstr("its certificate has expired"));
  EXPECT_THAT(refusal(Pem("server"), Key("device")),
              HasSubstr("is not the key of the certificate"));
  EXPECT_THAT(refusal(dir_.File("none"), Key("server")), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal(Key("server"), Key("server")),
              HasSubstr("begins with no certificate in PEM"));
  EXPECT_THAT(Refusal("--keys " + dir_.File("none")), HasSubstr("none: cannot be read"));
  const auto verifier = RemoteVerifier::Connect("127.0.0.1:1", {.ca = Key("none")});
  EXPECT_THAT(std::string(verifier.status().message()), HasSubstr("cannot be read, or is empty"));
}

}  // namespace
}  // namespace outrider
