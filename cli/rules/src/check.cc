#include <ostream>

#include "foreshock/base/file.h"
#include "foreshock/cli/rules.h"
#include "foreshock/json/writer.h"
#include "foreshock/server/rules/rules_file.h"
#include "outcome.h"

namespace foreshock::cli {
namespace {

void PrintJson(const std::string& file, const rules::ParsedRules& parsed, std::ostream& out) {
  json::Writer writer;
  writer.BeginObject().Key("file").String(file).Key("rules").BeginArray();
  for (const detect::UserRule& rule : parsed.rules) writer.String(rule.name);
  writer.EndArray().Key("errors");
  PutErrors(parsed.errors, &writer);
  writer.EndObject();
  out << writer.Take() << '\n';
}

}  // namespace

int RunRulesCheck(const std::vector<std::string>& files, bool json, std::ostream& out, std::ostream& err) {
  int exit = kPassed;
  for (const std::string& file : files) {
    const auto text = ReadWholeFile(PosixFileSystem(), file, uint64_t{1} << 26);
    if (!text.ok()) {
      err << "foreshock rules: " << text.status().message() << '\n';
      exit = kBadInput;
      continue;
    }
    const rules::ParsedRules parsed = rules::ParseUserRules(*text);
    if (!parsed.errors.empty()) exit = kBadInput;
    if (json) {
      PrintJson(file, parsed, out);
      continue;
    }
    for (const rules::RuleError& error : parsed.errors) err << rules::ToText(file, error) << '\n';
    if (parsed.errors.empty()) {
      const size_t count = parsed.rules.size();
      out << file << ": " << count << (count == 1 ? " rule" : " rules") << ", no errors\n";
    }
  }
  return exit;
}

}  // namespace foreshock::cli
