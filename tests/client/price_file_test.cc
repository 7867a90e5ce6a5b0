#include "client/device/price_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace outrider {
namespace {

const Prices kSome = {.pass_ms = 21.5,
                      .row_ms = 1.25,
                      .draft_ms = 0.75,
                      .draft_node_ms = 0,
                      .findings = {.pass_nodes = 6,
                                   .hints = false,
                                   .server = {.at_server = true,
                                              .verdicts = 7,
                                              .length = 48,
                                              .here = {12, 30.5, 400},
                                              .there = {4, 9, 0.125}}}};

Prices WithProfile() {
  Prices prices = kSome;
  prices.passes = {{{0, 0}, 21.5}, {{4, 4}, 26.25}, {{48, 48}, 100}};
  return prices;
}

class PriceFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) {
    std::filesystem::create_directories(path_.parent_path());
    std::ofstream(path_) << text;
  }
  std::string Read() {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) /
      testing::UnitTest::GetInstance()->current_test_info()->name() / "cache" / "prices";
  const PriceFile file_{path_};

  void SetUp() override { std::filesystem::remove_all(path_.parent_path()); }
};

TEST_F(PriceFileTest, RemembersWhatItWasTold) {
  EXPECT_EQ(file_.Find(1), std::nullopt);
  file_.Keep(1, kSome);
  Prices other = WithProfile();
  other.findings = {.pass_nodes = 12};
  other.knows_rows = false;
  file_.Keep(0xffffffffffffffff, other);
  EXPECT_EQ(file_.Find(1), kSome);
  EXPECT_EQ(file_.Find(0xffffffffffffffff), other);
  EXPECT_EQ(file_.Find(2), std::nullopt);
  file_.Keep(1, other);
  EXPECT_EQ(file_.Find(1), other);
}

TEST_F(PriceFileTest, AddsUpWhatWasAcceptedOfTwoModels) {
  EXPECT_EQ(file_.FindAccepted(1, 2), std::nullopt);
  file_.Add(1, 2, {.verdicts = 20, .tokens = 50, .nodes = 160});
  file_.Add(2, 1, {.verdicts = 7, .tokens = 8, .nodes = 9});
  file_.Add(1, 2, {.verdicts = 10, .tokens = 40, .nodes = 80});
  file_.Add(1, 2, {.verdicts = 3, .tokens = 3, .nodes = 0});  // nothing was drafted
  EXPECT_EQ(file_.FindAccepted(1, 2), (Accepted{30, 90, 240}));
  EXPECT_EQ(file_.FindAccepted(2, 1), (Accepted{7, 8, 9}));
  EXPECT_EQ(file_.FindAccepted(1, 1), std::nullopt);
  // Neither is in the other's way.
  file_.Keep(1, WithProfile());
  EXPECT_EQ(file_.FindAccepted(1, 2), (Accepted{30, 90, 240}));
  file_.Add(1, 2, {.verdicts = 1, .tokens = 1, .nodes = 8});
  EXPECT_EQ(file_.Find(1), WithProfile());
}

TEST_F(PriceFileTest, WhatWasAcceptedLongAgoCountsLess) {
  file_.Add(1, 2, {.verdicts = 3000, .tokens = 12000, .nodes = 30000});
  EXPECT_EQ(file_.FindAccepted(1, 2), (Accepted{2000, 8000, 20000}));
  file_.Add(1, 2, {.verdicts = 2000, .tokens = 2000, .nodes = 2000});
  EXPECT_EQ(file_.FindAccepted(1, 2), (Accepted{2000, 5000, 11000}));
  for (uint64_t n = 0; n < PriceFile::kPlaces; ++n) {
    file_.Add(3, n, {.verdicts = 1, .tokens = 1, .nodes = 1});
  }
  EXPECT_EQ(file_.FindAccepted(1, 2), std::nullopt);
}

TEST_F(PriceFileTest, BelievesNothingOfModelsThatMakesNoSense) {
  const std::string models = "accepted 0000000000000001 0000000000000002 ";
  for (const char* const sums : {"0 5 9", "5 4 9", "5 9 3", "5 9", "5 9 9 9", "-5 9 9", "5 9 x", "",
                                 "5 9 99999999999999", "99999999999999 99999999999999 9"}) {
    Write("outrider prices 5\n" + models + sums + "\n");
    EXPECT_EQ(file_.FindAccepted(1, 2), std::nullopt) << sums;
  }
  Write("outrider prices 5\n" + models + "5 9 9\n");
  EXPECT_EQ(file_.FindAccepted(1, 2), (Accepted{5, 9, 9}));
}

TEST_F(PriceFileTest, ForgetsWhatIsOldest) {
  for (uint64_t key = 0; key < PriceFile::kPlaces + 10; ++key) file_.Keep(key, kSome);
  EXPECT_EQ(file_.Find(9), std::nullopt);
  EXPECT_EQ(file_.Find(10), kSome);
  EXPECT_EQ(file_.Find(PriceFile::kPlaces + 9), kSome);
}

TEST_F(PriceFileTest, BelievesNothingThatMakesNoSense) {
  const std::string key = "0000000000000001 ";
  const std::string server = " 1 0 7 48 512 12 30.5 400 4 9 0.125";
  const std::string good = key + "21.5 1.25 0.75 0 1 6 0" + server;
  std::vector<std::string> lines = {"1", "", "000000000000000g" + good.substr(key.size() - 1)};
  for (size_t end = key.size(); end < good.size(); ++end) {
    if (good[end] == ' ') lines.push_back(good.substr(0, end));
  }
  for (const char* const prices :
       {"-1 1.25 0.75 0 1 6 0", "0 1.25 0.75 0 1 6 0", "21.5 1.25 0 0 1 6 0",
        "nan 1.25 0.75 0 1 6 0", "inf 1.25 0.75 0 1 6 0", "21.5 1e300 0.75 0 1 6 0",
        "21.5 1.25 0.75 0 1 0 0", "21.5 1.25 0.75 0 2 6 0", "21.5 1.25 0.75 0 1 99999 0",
        "21.5 1.25 0.75 0 1 -6 0", "21.5 1.25 0.75 0 1 6 2"}) {
    lines.push_back(key + prices + server);
  }
  for (const char* const bad :
       {" 2 0 7 48 512 12 30.5 400 4 9 0.125", " 1 x 7 48 512 12 30.5 400 4 9 0.125",
        " 1 0 49 48 512 12 30.5 400 4 9 0.125", " 1 0 7 48 512 nan 30.5 400 4 9 0.125",
        " 1 0 7 48 512 12 30.5 400 4 -9 0.125"}) {
    lines.push_back(key + "21.5 1.25 0.75 0 1 6 0" + bad);
  }
  for (const char* const pass : {" 7", " 4 4", " 4 4 0", " 4 9999 5", " 4 -4 5"}) {
    lines.push_back(good + pass);
  }
  for (const std::string& line : lines) {
    Write("outrider prices 5\n" + line + "\n");
    EXPECT_EQ(file_.Find(1), std::nullopt) << line;
  }
  Write("outrider prices 4\n" + good + "\n");
  EXPECT_EQ(file_.Find(1), std::nullopt);
  Write("outrider prices 5\nnonsense\n" + good + "\n");
  EXPECT_EQ(file_.Find(1), kSome);
  std::string long_line = "outrider prices 5\n" + good;
  for (size_t i = 0; i <= PriceFile::kShapesMax; ++i) long_line += " 4 4 5";
  Write(long_line);
  EXPECT_EQ(file_.Find(1), std::nullopt);
}

TEST_F(PriceFileTest, AllItKeepsCanBeReadAgain) {
  Prices large = kSome;
  large.pass_ms = large.row_ms = large.draft_ms = large.draft_node_ms = 12345.678901234567;
  large.passes.assign(PriceFile::kShapesMax, {{1024, 1024}, 1234567.8901234567});
  ServerFindings& server = large.findings.server;
  server.here = server.there = {123.45678901234567, 123456.78901234567, 123456789.01234567};
  for (uint64_t key = 0; key < PriceFile::kPlaces; ++key) {
    file_.Keep(key, large);
    file_.Add(key, ~key, {.verdicts = 2000, .tokens = 100000, .nodes = 1000000});
  }
  for (uint64_t key = 0; key < PriceFile::kPlaces; ++key) {
    EXPECT_EQ(file_.Find(key), large);
    EXPECT_TRUE(file_.FindAccepted(key, ~key).has_value());
  }
}

TEST_F(PriceFileTest, AFileOfAnySizeIsNoBurden) {
  Write("outrider prices 5\n" + std::string(10 << 20, 'x'));
  EXPECT_EQ(file_.Find(1), std::nullopt);
  file_.Keep(1, kSome);
  EXPECT_EQ(file_.Find(1), kSome);
  EXPECT_LT(Read().size(), 200u);
}

TEST_F(PriceFileTest, WhereNothingCanBeWrittenNothingIsKept) {
  const PriceFile nowhere("");
  nowhere.Keep(1, kSome);
  EXPECT_EQ(nowhere.Find(1), std::nullopt);
  Prices nothing = kSome;
  nothing.draft_ms = 0;
  file_.Keep(1, nothing);
  EXPECT_EQ(file_.Find(1), std::nullopt);
  const PriceFile impossible("/dev/null/prices");
  impossible.Keep(1, kSome);
  EXPECT_EQ(impossible.Find(1), std::nullopt);
}

}  // namespace
}  // namespace outrider
