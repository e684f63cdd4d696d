#include "watch.h"

#include <array>
#include <fstream>
#include <iterator>

namespace foreshock::trainer {
namespace {

constexpr std::array<const char*, 4> kActions = {"enable_qk_norm", "qk_clip", "checkpoint", "stop"};

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace

Watch::Watch(const Options& options, Training& training) : training_(training) {
  std::vector<const char*> arguments;
  for (const std::string& argument : options.agent_arguments) arguments.push_back(argument.c_str());
  const auto every = static_cast<std::uint32_t>(options.sample_every);

  const std::string seed = "seed=" + std::to_string(options.training.seed);
  const std::array<const char*, 1> labels = {seed.c_str()};

  fs_options o;
  fs_options_init(&o);
  o.labels = labels.data();
  o.label_count = labels.size();
  o.run = or_null(options.run);
  o.address = or_null(options.foreshock);
  o.framework = "foreshock-trainer";
  o.model_name = "gpt-2x4x16";
  o.attention_every_steps = every;
  o.spectra_every_steps = every;
  o.row_every = static_cast<std::uint32_t>(options.row_every);
  o.budget = options.budget;
  o.snapshot_bytes = static_cast<std::uint64_t>(options.snapshot_bytes);
  o.allowed_actions = kActions.data();
  o.allowed_action_count = kActions.size();
  if (!options.agent.empty()) {
    o.start_agent = 1;
    o.agent_path = options.agent.c_str();
    o.agent_arguments = arguments.data();
    o.agent_argument_count = static_cast<std::uint32_t>(arguments.size());
  }
  fs_open(&o, &run_);
  for (int layer = 0; layer < training.model().shape().layers; ++layer) declare_layer(layer, options.qk_norm);

  if (options.guard) {
    fs_guard_options guard;
    fs_guard_options_init(&guard);
    guard.automatic = 1;
    guarded_ = fs_guard_enable(run_, &guard) == FS_OK;
    if (!guarded_) guard_refusal_ = fs_last_error(run_);
  }
}

Watch::~Watch() { fs_close(run_, FS_FAILED); }

void Watch::declare_layer(int layer, bool qk_norm) {
  const ModelShape& shape = training_.model().shape();
  fs_weights wq;
  fs_weights_init(&wq);
  wq.data = training_.model().qkv_weights(layer);  // [d_model, 3 d_model]: Q's heads, K's heads, V's heads
  wq.dtype = FS_FP32;
  wq.row_stride = shape.qkv_width();
  wq.col_stride = 1;
  wq.head_stride = shape.head_dim;
  wq.weight_decay = training_.config().weight_decay;
  fs_weights wk = wq;
  wk.data = training_.model().qkv_weights(layer) + shape.d_model();

  fs_layer l;
  fs_layer_init(&l);
  l.layer = static_cast<std::uint32_t>(layer);
  l.model_dim = static_cast<std::uint32_t>(shape.d_model());
  l.query_heads = l.kv_heads = static_cast<std::uint32_t>(shape.heads);
  l.head_dim = static_cast<std::uint32_t>(shape.head_dim);
  l.qk_norm = qk_norm ? 1 : 0;
  l.wq = &wq;
  l.wk = &wk;
  fs_add_layer(run_, &l);
}

fs_attention Watch::attention_of(int layer) const {
  const ModelShape& shape = training_.model().shape();
  const Attention& attention = training_.model().attention(layer);
  const auto tensor = [&shape](const HeadTensor& t) {
    fs_tensor out = fs_tensor_bshd(t.data, FS_FP32, shape.batch, shape.context, shape.heads, shape.head_dim);
    out.batch_stride = static_cast<std::int64_t>(shape.context) * t.token_stride;
    out.seq_stride = t.token_stride;
    return out;
  };
  fs_attention a;
  fs_attention_init(&a);
  a.q = tensor(attention.q());
  a.k = tensor(attention.k());
  a.v = tensor(attention.v());
  a.o = tensor(attention.o());
  a.d_o = tensor(attention.d_o());
  a.dq = tensor(attention.d_q());
  return a;
}

void Watch::begin(std::int64_t step) { fs_step_begin(run_, step); }

void Watch::measured() {
  const StepResult& result = training_.result();
  for (int layer = 0; layer < training_.model().shape().layers; ++layer) {
    const auto index = static_cast<std::uint32_t>(layer);
    if (fs_wants_attention(run_, index) != 0) {
      const fs_attention a = attention_of(layer);
      fs_attention_forward(run_, index, &a);
    }
    if (fs_wants_attention_backward(run_, index) != 0) {
      const fs_attention a = attention_of(layer);
      fs_attention_backward(run_, index, &a);
    }
  }
  fs_loss(run_, result.loss, training_.model().shape().tokens());
  fs_scalar(run_, FS_GRAD_NORM, result.grad_norm);
  fs_scalar(run_, FS_LEARNING_RATE, result.learning_rate);
  if (result.skipped) fs_step_skipped(run_);
}

void Watch::end() { fs_step_end(run_); }

bool Watch::save_guard(const std::string& path) const {
  std::size_t bytes = 0;
  if (!guarded_ || (fs_guard_save(run_, nullptr, &bytes) != FS_ERR_LIMIT)) return false;
  std::vector<char> state(bytes);
  if (fs_guard_save(run_, state.data(), &bytes) != FS_OK) return false;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(state.data(), static_cast<std::streamsize>(bytes));
  return static_cast<bool>(out.flush());
}

bool Watch::restore_guard(const std::string& path, std::string* error) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> state{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in || state.empty()) {
    *error = "cannot read the guard's state " + path;
    return false;
  }
  if (fs_guard_restore(run_, state.data(), state.size()) == FS_OK) return true;
  *error = "the guard's state " + path + ": " + fs_last_error(run_);
  return false;
}

fs_stats Watch::stats() const {
  fs_stats stats;
  fs_stats_init(&stats);
  fs_get_stats(run_, &stats);
  return stats;
}

void Watch::close(fs_end end) {
  fs_close(run_, end);
  run_ = nullptr;
}

}  // namespace foreshock::trainer
