// outrider-server as users run it, with the stories model, in a process of its own that can be
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
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/file_descriptor.h"
#include "common/base/status.h"
#include "tests/model/stories.h"

namespace outrider {

class ServerProcess {
 public:
  // Returns when devices can connect. Port 0: any free one. With these flags
  // besides. `program` is outrider-server, or one that takes its flags.
  explicit ServerProcess(uint16_t port = 0,
                         const std::vector<std::string>& flags = {"--sessions", "16"},
                         const char* program = OUTRIDER_SERVER) {
    int ends[2];
    OUTRIDER_CHECK(pipe2(ends, O_CLOEXEC) == 0, "a process can have a pipe");
    says_ = FileDescriptor(ends[0]);
    const FileDescriptor said(ends[1]);
    const std::string listen = Concat("127.0.0.1:", port);
    const std::string model = Stories();
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
    port_ = ReadPort();
  }
  ~ServerProcess() { Kill(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  std::string address() const { return Concat("127.0.0.1:", port_); }

  // In the middle of whatever it does.
  void Kill() { End(SIGKILL); }
  // Asked to, it ends by itself: what it returned, or nothing sensible when it did not.
  int Stop() {
    const int status = End(SIGTERM);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  // "serving stories (numerics id ...) on 127.0.0.1:41234", perhaps after other lines.
  uint16_t ReadPort() {
    std::string line;
    do {
      line.clear();
      for (char letter; read(says_.get(), &letter, 1) == 1 && letter != '\n';) line += letter;
    } while (!line.empty() && !line.starts_with("serving "));
    const size_t colon = line.rfind(':');
    OUTRIDER_CHECK(line.starts_with("serving ") && colon != std::string::npos,
                   "a server with a good model starts");
    return static_cast<uint16_t>(std::stoul(line.substr(colon + 1)));
  }

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
};

}  // namespace outrider
