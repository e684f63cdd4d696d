// foreshock catalogue
#include "foreshock/base/catalogue.h"

#include "commands.h"
#include "foreshock/cli/render.h"
#include "foreshock/json/writer.h"

namespace foreshock::cli {
namespace {

class Catalogue final : public Command {
 public:
  CommandSpec Spec() override {
    return {"catalogue", "Every signal: name, unit, meaning and source",
            "Needs no server.\n\nExamples:\n  foreshock catalogue\n  foreshock catalogue --json",
            [this](ArgSink& sink) { sink.Flag("--json", &json_, "print JSON"); }};
  }

  int Run(Context& context) override {
    if (!json_) {
      context.out << RenderCatalogue(context.style);
      return kExitOk;
    }
    json::Writer out;
    out.BeginObject().Key("signals").BeginArray();
    for (const SignalInfo& info : SignalCatalogue()) {
      out.BeginObject().Key("id").Uint(info.id).Key("name").String(info.name).Key("unit").String(info.unit);
      out.Key("per_head").Bool(info.scope != SignalScope::kScalar);
      out.Key("meaning").String(info.meaning).Key("source").String(info.source).EndObject();
    }
    out.EndArray().EndObject();
    context.out << out.text() << "\n";
    return kExitOk;
  }

 private:
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeCatalogue() { return std::make_unique<Catalogue>(); }

}  // namespace foreshock::cli
