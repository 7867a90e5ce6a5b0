// outrider-server as users run it, with a model (the stories one), in a process of its own that can be
// killed. Only for programs with outrider_uses_stories() and OUTRIDER_SERVER.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "tests/model/stories.h"

namespace outrider {

// ThreadSanitizer takes more memory for itself than is allowed here.
#ifdef __SANITIZE_THREAD__
inline constexpr bool kCountsMemory = false;
#else
inline constexpr bool kCountsMemory = true;
#endif

class ServerProcess {
 public:
  // Returns when devices can connect. Port 0: any free one. With these flags
  // besides. `program` is outrider-server, or one that takes its flags.
  explicit ServerProcess(uint16_t port = 0,
                         const std::vector<std::string>& flags = {"--sessions", "16"},
                         const char* program = OUTRIDER_SERVER,
                         const std::string& model = Stories()) {
    int ends[2];
    OUTRIDER_CHECK(pipe2(ends, O_CLOEXEC) == 0, "a process can have a pipe");
    says_ = FileDescriptor(ends[0]);
    FileDescriptor said(ends[1]);
    const std::string listen = Concat("127.0.0.1:", port);
    std::vector<const char*> arguments = {
        program, "--model", model.c_str(), "--listen", listen.c_str(), "--threads", "1"};
    for (const std::string& argument : flags) arguments.push_back(argument.c_str());
    arguments.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // should the test come to an end of its own
      dup2(said.get(), STDERR_FILENO);
      execv(program, const_cast<char* const*>(arguments.data()));
      _exit(127);
    }
    said = FileDescriptor();  // so that all is said when the server has ended
    reader_ = std::thread([this] { Read(); });
    port_ = AwaitPort();
  }
  ~ServerProcess() {
    Kill();
    reader_.join();
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  // Of memory, at most until now, as the kernel counts it.
  int64_t peak_kilobytes() const {
    FILE* const file = fopen(Concat("/proc/", pid_, "/status").c_str(), "r");
    OUTRIDER_CHECK(file != nullptr, "the server is there");
    int64_t kilobytes = 0;
    char line[256];
    while (fgets(line, sizeof(line), file) != nullptr) {
      if (sscanf(line, "VmHWM: %ld", &kilobytes) == 1) break;
    }
    fclose(file);
    return kilobytes;
  }
  std::string address() const { return Concat("127.0.0.1:", port_); }

  // The first line with this in it that it says, now or later; empty: it ended without.
  std::string AwaitLine(std::string_view text) {
    MutexLock lock(mu_);
    for (;;) {
      const size_t at = said_.find(text);
      const size_t end = at == std::string::npos ? at : said_.find('\n', at);
      if (end != std::string::npos) {
        const size_t line = at == 0 ? 0 : said_.rfind('\n', at - 1) + 1;
        return said_.substr(line, end - line);
      }
      if (has_ended_) return "";
      changed_.Wait(mu_);
    }
  }

  // All that it has said when it has ended.
  std::string AwaitAll() {
    MutexLock lock(mu_);
    while (!has_ended_) changed_.Wait(mu_);
    return said_;
  }

  // Of an address on this machine that a line ends with, or has as a field.
  static uint16_t PortIn(std::string_view line) {
    constexpr std::string_view kHost = "127.0.0.1:";
    const size_t host = line.rfind(kHost);
    OUTRIDER_CHECK(host != std::string_view::npos, "a line tells of an address here");
    return static_cast<uint16_t>(std::stoul(std::string(line.substr(host + kHost.size()))));
  }

  // In the middle of whatever it does.
  void Kill() { End(SIGKILL); }
  // Asked to, it ends by itself: what it returned, or nothing sensible when it did not.
  int Stop() { return ExitCode(End(SIGTERM)); }
  // The same where it has been asked already.
  int AwaitEnd() { return ExitCode(End(0)); }

 private:
  // All that it says, so that it never waits for a reader; to its end.
  void Read() {
    char bytes[4096];
    for (ssize_t count; (count = read(says_.get(), bytes, sizeof(bytes))) > 0;) {
      MutexLock lock(mu_);
      said_.append(bytes, static_cast<size_t>(count));
      changed_.NotifyAll();
    }
    MutexLock lock(mu_);
    has_ended_ = true;
    changed_.NotifyAll();
  }

  // "serving stories (numerics id ...) on 127.0.0.1:41234", perhaps after other lines; in JSON an
  // event of that name.
  uint16_t AwaitPort() {
    const std::string line = AwaitLine("serving");
    if (line.empty()) fprintf(stderr, "the server said: %s\n", AwaitAll().c_str());
    OUTRIDER_CHECK(!line.empty(), "a server with a good model starts");
    return PortIn(line);
  }

  static int ExitCode(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }

  int End(int signal) {
    if (pid_ <= 0) return 0;
    kill(pid_, signal);
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

  FileDescriptor says_;  // its standard error
  pid_t pid_ = 0;
  uint16_t port_ = 0;
  Mutex mu_;
  CondVar changed_;
  std::string said_ ABSL_GUARDED_BY(mu_);
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread reader_;
};

}  // namespace outrider
