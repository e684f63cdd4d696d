#include "foreshock/trainer/options.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>

namespace foreshock::trainer {
namespace {

// One option's value, turned into what it sets. False and the limit in `error` otherwise.
using Setter = bool (*)(std::string_view value, Options* options, std::string* error);

struct Option {
  std::string_view name;
  bool takes_value;
  Setter set;
};

std::string text_of(int limit) { return std::to_string(limit); }
std::string text_of(std::int64_t limit) { return std::to_string(limit); }
std::string text_of(std::uint64_t limit) { return std::to_string(limit); }
std::string text_of(double limit) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%g", limit);
  return text.data();
}

template <typename T>
bool number(std::string_view text, T least, T most, T* out, std::string* error) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && end == text.data() + text.size() && value >= least && value <= most) {
    *out = value;
    return true;
  }
  *error = "expected a number in " + text_of(least) + ".." + text_of(most);
  return false;
}

constexpr std::int64_t kMostSteps = 1'000'000'000;
constexpr int kMostLayers = 64;  // of a checkpoint
constexpr int kMostHeads = 256;  // of a model of 4,096 dimensions

constexpr std::array kOptions = {
    Option{"--help", false, [](std::string_view, Options* o, std::string*) { return o->help = true; }},
    Option{"--quiet", false, [](std::string_view, Options* o, std::string*) { return o->quiet = true; }},
    Option{"--jsonl", false, [](std::string_view, Options* o, std::string*) { return o->jsonl = true; }},
    Option{"--mark-steps", false, [](std::string_view, Options* o, std::string*) { return o->mark_steps = true; }},
    Option{"--qk-norm", false, [](std::string_view, Options* o, std::string*) { return o->qk_norm = true; }},
    Option{"--steps", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number<std::int64_t>(v, 1, kMostSteps, &o->steps, e);
           }},
    Option{"--seed", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number<std::uint64_t>(v, 0, ~std::uint64_t{0}, &o->training.seed, e);
           }},
    Option{"--lr", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number(v, 1e-9, 1e3, &o->training.learning_rate, e);
           }},
    Option{"--layers", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number(v, 1, kMostLayers, &o->training.shape.layers, e);
           }},
    Option{"--heads", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number(v, 1, kMostHeads, &o->training.shape.heads, e);
           }},
    Option{"--weight-decay", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number(v, 0.0, 10.0, &o->training.weight_decay, e);
           }},
    Option{"--warmup", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number<std::int64_t>(v, 0, kMostSteps, &o->training.warmup_steps, e);
           }},
    Option{"--fault", true,
           [](std::string_view v, Options* o, std::string* e) { return parse_fault(v, &o->training.fault, e); }},
    Option{"--fault-step", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number<std::int64_t>(v, 0, kMostSteps, &o->training.fault.first_step, e);
           }},
    Option{"--fault-head", true,
           [](std::string_view v, Options* o, std::string* e) {
             return parse_fault_head(v, &o->training.fault, e);
           }},
    Option{"--data", true,
           [](std::string_view v, Options* o, std::string*) {
             o->data.emplace_back(v);
             return true;
           }},
    Option{"--sample-every", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number<std::int64_t>(v, 1, kMostSteps, &o->sample_every, e);
           }},
    Option{"--log-every", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number<std::int64_t>(v, 1, kMostSteps, &o->log_every, e);
           }},
    Option{"--checkpoint-dir", true,
           [](std::string_view v, Options* o, std::string*) {
             o->checkpoint_dir = v;
             return true;
           }},
    Option{"--checkpoint-every", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number<std::int64_t>(v, 1, kMostSteps, &o->checkpoint_every, e);
           }},
    Option{"--foreshock", true,
           [](std::string_view v, Options* o, std::string*) {
             o->foreshock = v;
             return true;
           }},
    Option{"--run", true,
           [](std::string_view v, Options* o, std::string*) {
             o->run = v;
             return true;
           }},
    Option{"--agent", true,
           [](std::string_view v, Options* o, std::string* e) {
             o->agent = v;
             if (v.starts_with("/")) return true;
             *e = "expected an absolute path";
             return false;
           }},
    Option{"--agent-argument", true,
           [](std::string_view v, Options* o, std::string*) {
             o->agent_arguments.emplace_back(v);
             return true;
           }},
    Option{"--row-every", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number<std::int64_t>(v, 1, 1 << 20, &o->row_every, e);
           }},
    Option{"--budget", true,
           [](std::string_view v, Options* o, std::string* e) { return number(v, 1e-6, 1e6, &o->budget, e); }},
    Option{"--snapshot-bytes", true,
           [](std::string_view v, Options* o, std::string* e) {
             return number<std::int64_t>(v, 0, std::int64_t{1} << 40, &o->snapshot_bytes, e);
           }},
    Option{"--guard", false, [](std::string_view, Options* o, std::string*) { return o->guard = true; }},
    Option{"--resume", true,
           [](std::string_view v, Options* o, std::string*) {
             o->resume = v;
             return true;
           }},
};

const Option* find(std::string_view name) {
  for (const Option& option : kOptions) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

bool check_together(const Options& options, std::string* error) {
  const Fault& fault = options.training.fault;
  const ModelShape& shape = options.training.shape;
  if (fault.layer < shape.layers && fault.head < shape.heads) return true;
  *error = "--fault-head " + std::to_string(fault.layer) + "." + std::to_string(fault.head) +
           ": the model has " + std::to_string(shape.layers) + " layers of " + std::to_string(shape.heads) +
           " heads";
  return false;
}

}  // namespace

bool parse_options(int argc, const char* const* argv, Options* options, std::string* error) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const std::size_t equals = argument.find('=');
    const std::string_view name = argument.substr(0, equals);
    const Option* option = find(name);
    if (option == nullptr) {
      *error = "unknown option " + std::string(argument) + " (see --help)";
      return false;
    }
    std::string_view value;
    if (equals != std::string_view::npos) {
      value = argument.substr(equals + 1);
    } else if (option->takes_value && i + 1 < argc) {
      value = argv[++i];
    } else if (option->takes_value) {
      *error = std::string(name) + " needs a value";
      return false;
    }
    if (!option->takes_value && equals != std::string_view::npos) {
      *error = std::string(name) + " takes no value";
      return false;
    }
    std::string why;
    if (!option->set(value, options, &why)) {
      *error = std::string(name) + " " + std::string(value) + ": " + why;
      return false;
    }
  }
  return check_together(*options, error);
}

const char* help_text() {
  return R"(foreshock-trainer: a small GPT (heads of 16, 64 tokens, bytes), trained on text

  --steps N              optimizer steps in all (2800)
  --seed N               of weights and batches (1)
  --layers N             layers of attention and MLP (2)
  --heads N              heads a layer; the model has 16 dimensions a head (4)
  --lr X                 learning rate after the warm-up (0.003)
  --warmup N             steps of linear warm-up (100)
  --weight-decay X       decoupled (0.1)
  --data PATH            text file or folder; may be repeated (the project's own sources and docs)
  --qk-norm              QK normalization in every layer from the start

A directed perturbation of attention. It is real arithmetic in the real pass, but not what hardware does by
itself: natural rounding to bf16 errs by at most half an ulp and in both directions.
  --fault output:K       attention output moved K bf16 ulp away from zero
  --fault delta:C        delta = rowsum(dO * O) biased by C times its mean magnitude
  --fault-step N         first step with the fault (0)
  --fault-head L.H       only in this layer and head (all)

  --sample-every N       steps between samples (10)
  --log-every N          steps between lines of text (100)
  --quiet                no text
  --jsonl                JSON lines on stdout instead of text
  --checkpoint-dir DIR   write DIR/step-N.ckpt
  --checkpoint-every N   steps between checkpoints (500)
  --resume PATH          continue from a checkpoint, or from the newest in a folder
  --mark-steps           mark step begin and end for a system call trace

Foreshock:
  --foreshock ADDRESS    unix:PATH, file:PATH or grpc://HOST:PORT (FORESHOCK_ADDR, else not watched)
  --run NAME             name of the run (FORESHOCK_RUN, else "run")
  --guard                let the guard switch QK normalization on where logits begin to saturate
  --row-every N          one attention row in N (8)
  --snapshot-bytes N     memory for copies of W_Q and W_K, for update_norm and qk_update_entropy (0: off)
  --budget X             share of step time that Foreshock may take before it samples less (1: never less)
  --agent PATH           agent to start when none listens; absolute (none)
  --agent-argument X     further argument for it; may be repeated

Exit status: 0 trained to the end or stopped on request, 1 stopped by an error, 2 wrong options.
)";
}

}  // namespace foreshock::trainer
