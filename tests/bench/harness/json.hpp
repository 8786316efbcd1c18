// SPDX-License-Identifier: Apache-2.0
// Lines of JSON: as much of it as the peers print.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace gpupool_bench {

/// One object, printed as a line. Texts are our own and hold nothing that would have to be escaped.
class JsonLine {
 public:
  JsonLine& text(const char* key, const std::string& value) { return raw(key, '"' + value + '"'); }
  JsonLine& number(const char* key, uint64_t value) { return raw(key, std::to_string(value)); }
  JsonLine& flag(const char* key, bool value) { return raw(key, value ? "true" : "false"); }
  JsonLine& real(const char* key, double value) { return raw(key, format(value)); }
  JsonLine& reals(const char* key, const std::vector<double>& values) {
    std::string list;
    for (const double value : values) {
      list += list.empty() ? '[' : ',';
      list += format(value);
    }
    return raw(key, list.empty() ? "[]" : list += ']');
  }
  JsonLine& raw(const char* key, const std::string& value) {
    line_ += line_.empty() ? '{' : ',';
    line_ += '"';
    line_ += key;
    line_ += "\":";
    line_ += value;
    return *this;
  }
  void print() const {
    std::printf("%s}\n", line_.c_str());
    std::fflush(stdout);
  }

 private:
  static std::string format(double value) {
    char digits[64];
    std::snprintf(digits, sizeof digits, "%.6g", value);
    return digits;
  }
  std::string line_;
};

}  // namespace gpupool_bench
