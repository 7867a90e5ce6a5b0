// HTTP/2 by hand, for what a library would not do: connections that say nothing, and frames of any kind.
//
//   const FileDescriptor socket = ConnectTo(server.port());
//   const std::string said = Preface() + Frame(1, 4, 1, HeadersOf("/outrider.v1.Verifier/Decode"));
//   send(socket.get(), said.data(), said.size(), MSG_NOSIGNAL);
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "common/base/file_descriptor.h"
#include "gtest/gtest.h"

namespace outrider {

inline sockaddr_in LoopbackAddress(uint32_t host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(host);
  return address;
}

// From an address of this machine.
inline FileDescriptor ConnectTo(uint16_t port, uint32_t from = INADDR_LOOPBACK) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in here = LoopbackAddress(from, 0);
  const sockaddr_in there = LoopbackAddress(INADDR_LOOPBACK, port);
  EXPECT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&here), sizeof(here)), 0);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&there), sizeof(there)), 0);
  return socket;
}

// Whether the server hangs up in this time; what it says before that is not looked at.
inline bool IsHungUp(const FileDescriptor& socket, int wait_ms) {
  pollfd polled = {.fd = socket.get(), .events = POLLIN, .revents = 0};
  char bytes[4096];
  while (poll(&polled, 1, wait_ms) > 0) {
    if (recv(socket.get(), bytes, sizeof(bytes), 0) <= 0) return true;
  }
  return false;
}

inline std::string Frame(char type, char flags, uint32_t stream, const std::string& content) {
  std::string frame = {0,
                       static_cast<char>(content.size() >> 8),
                       static_cast<char>(content.size()),
                       type,
                       flags,
                       static_cast<char>(stream >> 24),
                       static_cast<char>(stream >> 16),
                       static_cast<char>(stream >> 8),
                       static_cast<char>(stream)};
  return frame + content;
}

inline std::string Field(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

// Of a call that has a body.
inline std::string HeadersOf(const std::string& path) {
  return Field(":method", "POST") + Field(":scheme", "http") + Field(":path", path) +
         Field(":authority", "x") + Field("te", "trailers") +
         Field("content-type", "application/grpc");
}

inline std::string Preface() {
  return std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + Frame(4, 0, 0, "");
}

}  // namespace outrider
