#include "foreshock/cli/args.h"

#include <CLI/CLI.hpp>
#include <charconv>

namespace foreshock::cli {
namespace {

// CLI11 takes what overflows for the largest number.
CLI::Validator WholeNumber() {
  return CLI::Validator(
      [](std::string& text) {
        int64_t value = 0;
        const char* end = text.data() + text.size();
        const auto [at, error] = std::from_chars(text.data(), end, value);
        return error == std::errc() && at == end ? "" : text + ": not a whole number of at most 64 bits";
      },
      "");
}

class Sink final : public ArgSink {
 public:
  explicit Sink(CLI::App* app) : app_(app) {}

  void Positional(const std::string& name, std::string* target, const std::string& help) override {
    app_->add_option(name, *target, help)->required()->type_name("");
  }
  void OptionalPositional(const std::string& name, std::string* target, const std::string& help) override {
    app_->add_option(name, *target, help)->type_name("");
  }
  void Positionals(const std::string& name, std::vector<std::string>* target,
                   const std::string& help) override {
    app_->add_option(name, *target, help)->required()->type_name("");
  }
  void Flag(const std::string& flags, bool* target, const std::string& help) override {
    app_->add_flag(flags, *target, help);
  }
  void Option(const std::string& flags, std::string* target, const std::string& help,
              const std::string& environment) override {
    CLI::Option* option = app_->add_option(flags, *target, help)->type_name("TEXT");
    if (!target->empty()) option->capture_default_str();
    if (!environment.empty()) option->envname(environment);
  }
  void Option(const std::string& flags, std::optional<int64_t>* target, const std::string& help) override {
    CLI::Option* option = app_->add_option(flags, *target, help)->type_name("N")->check(WholeNumber());
    if (target->has_value()) option->default_str(std::to_string(**target));
  }
  void Option(const std::string& flags, std::optional<double>* target, const std::string& help) override {
    app_->add_option(flags, *target, help)->type_name("X");
  }
  void Option(const std::string& flags, std::vector<int64_t>* target, const std::string& help) override {
    app_->add_option(flags, *target, help)->type_name("N")->expected(1)->take_all()->check(WholeNumber());
  }
  void Option(const std::string& flags, std::vector<std::string>* target, const std::string& help) override {
    app_->add_option(flags, *target, help)->type_name("TEXT")->expected(1)->take_all();
  }
  void Rest(std::vector<std::string>* target, const std::string& help) override {
    app_->add_option("rest", *target, help)->type_name("");
    app_->positionals_at_end();
  }

 private:
  CLI::App* app_;
};

ParseOutcome Complaint(const CLI::App& app, const CLI::Error& error) {
  // The deepest command that was entered: its --help is the one worth reading.
  std::string path = app.get_name();
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    path += " " + at->get_name();
  }
  std::string text = app.get_name() + ": ";
  text.append(error.what()).append("\nTry '" + path + " --help'.\n");
  return {std::nullopt, 2, text};
}

}  // namespace

ParseOutcome Parse(const ProgramSpec& program, int argc, const char* const* argv) {
  CLI::App app(program.description, program.name);
  app.footer(program.footer);
  app.set_version_flag("--version", program.version);
  app.require_subcommand(0, 1);  // none is answered below: CLI11 would hide a mistyped one behind it
  std::vector<CLI::App*> subs;
  for (const CommandSpec& command : program.commands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer(command.footer);
    Sink sink(sub);
    command.declare(sink);
    subs.push_back(sub);
  }
  if (argc <= 1) return {std::nullopt, 2, app.help()};
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return {std::nullopt, 0, program.name + " " + version.what() + "\n"};
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, 0, app.help()};
  } catch (const CLI::Error& error) {
    return Complaint(app, error);
  }
  for (size_t i = 0; i < subs.size(); ++i) {
    if (subs[i]->parsed()) return {i, 0, ""};
  }
  return {std::nullopt, 2, app.help()};
}

}  // namespace foreshock::cli
