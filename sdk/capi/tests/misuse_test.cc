// Wrong calls: a clear status and a message that names field, value and limit; the run goes on.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "recording_support.h"
#include "toy_model.h"

namespace foreshock::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MisuseTest : public ::testing::Test {
 protected:
  MisuseTest() {
    fs_options options = TestOptions(address_);
    EXPECT_EQ(fs_open(&options, &run_), FS_OK);
  }
  ~MisuseTest() override { fs_close(run_, FS_STOPPED); }

  TempDir dir_;
  std::string address_ = "file:" + (dir_ / "run.fsk");
  fs_run* run_ = nullptr;
  ToyModel model_;
};

// What every receiver would refuse is refused at once, with the reason.
TEST(OptionsTest, NamesAndLabelsAreJudgedAtOpen) {
  static std::string said;
  const auto open = [](auto change) {
    const std::string address = "file:/dev/null";
    fs_options options = TestOptions(address);
    options.log = [](void*, fs_log_level, const char* text) { said = text; };
    said.clear();
    change(&options);
    fs_run* run = nullptr;
    const fs_status status = fs_open(&options, &run);
    fs_close(run, FS_STOPPED);
    return status;
  };
  EXPECT_EQ(open([](fs_options*) {}), FS_OK);
  EXPECT_NE(open([](fs_options* o) { o->run = "a\xff"; }), FS_OK);
  EXPECT_THAT(said, HasSubstr("run: byte 255 at position 1, must be printable UTF-8"));
  static const char* labels[] = {"team=vision", "site=a=b", "empty="};
  EXPECT_EQ(open([](fs_options* o) { o->labels = labels, o->label_count = 3; }), FS_OK);
  static const char* none[] = {"team"};
  EXPECT_NE(open([](fs_options* o) { o->labels = none, o->label_count = 1; }), FS_OK);
  EXPECT_THAT(said, HasSubstr("labels: 'team', must be key=value"));
  static const char* keyless[] = {"=x"};
  EXPECT_NE(open([](fs_options* o) { o->labels = keyless, o->label_count = 1; }), FS_OK);
  EXPECT_THAT(said, HasSubstr("labels: empty"));
}

TEST_F(MisuseTest, LabelsReachTheHello) {
  const char* labels[] = {"team=vision", "site=a=b", "team=text"};
  const std::string address = "file:" + (dir_ / "labels.fsk");
  fs_options options = TestOptions(address);
  options.labels = labels;
  options.label_count = 3;
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(&options, &run), FS_OK);
  EXPECT_EQ(fs_step_begin(run, 0), FS_OK);
  EXPECT_EQ(fs_step_end(run), FS_OK);
  EXPECT_EQ(fs_close(run, FS_FINISHED), FS_OK);
  const auto hellos = ReadRecording(dir_ / "labels.fsk").hellos;
  ASSERT_EQ(hellos.size(), 1u);
  EXPECT_EQ(hellos[0].labels, (std::map<std::string, std::string>{{"site", "a=b"}, {"team", "text"}}));
}

TEST_F(MisuseTest, LayersThatCannotBe) {
  struct Case {
    void (*spoil)(fs_layer*);
    const char* message;
  };
  const Case cases[] = {
      {[](fs_layer* l) { l->query_heads = 0; }, "query_heads: 0, must be 1 to 65536"},
      {[](fs_layer* l) { l->kv_heads = 3; }, "kv_heads: 3, must divide query_heads 4"},
      {[](fs_layer* l) { l->head_dim = 0; }, "head_dim: 0, must be 1"},
      {[](fs_layer* l) { l->softcap = -1; }, "softcap: -1"},
      {[](fs_layer* l) { l->scale = NAN; }, "scale: "},
      {[](fs_layer* l) { l->dropout = 1; }, "dropout: 1"},
      {[](fs_layer* l) { l->window_left = -2; }, "window_left: -2"},
      {[](fs_layer* l) { l->layer = 70000; }, "layer: 70000, at most 65535"},
      {[](fs_layer* l) { l->local_query_heads = 9; }, "local_query_heads: 9, must be 1 to 4"},
      {[](fs_layer* l) { l->first_query_head = 2; }, "first_query_head: 2, must be 0 to 0"},
      {[](fs_layer* l) { l->size = 2; }, "layer.size: 2, call fs_layer_init"},
  };
  for (const Case& c : cases) {
    fs_layer layer = model_.Layer(0);
    c.spoil(&layer);
    EXPECT_NE(fs_add_layer(run_, &layer), FS_OK) << c.message;
    EXPECT_THAT(fs_last_error(run_), HasSubstr(c.message));
  }
  EXPECT_EQ(model_.Register(run_), FS_OK) << "failed calls change nothing";
  const fs_layer again = model_.Layer(1);
  EXPECT_EQ(fs_add_layer(run_, &again), FS_ERR_ARGUMENT);
  EXPECT_THAT(fs_last_error(run_), HasSubstr("layer: 1 was added before"));
  fs_stats stats;
  fs_stats_init(&stats);
  fs_get_stats(run_, &stats);
  EXPECT_EQ(stats.errors, std::size(cases) + 1);
}

TEST_F(MisuseTest, WeightsThatCannotBe) {
  fs_weights wq = model_.Weights(0, false);
  fs_layer layer = model_.Layer(0);
  layer.wq = &wq;
  wq.data = nullptr;
  EXPECT_EQ(fs_add_layer(run_, &layer), FS_ERR_ARGUMENT);
  EXPECT_THAT(fs_last_error(run_), HasSubstr("layer 0: wq.data: null"));
  wq = model_.Weights(0, false);
  wq.dtype = static_cast<fs_dtype>(9);
  EXPECT_EQ(fs_add_layer(run_, &layer), FS_ERR_ARGUMENT);
  EXPECT_THAT(fs_last_error(run_), HasSubstr("wq.dtype: 9"));
  wq = model_.Weights(0, false);
  wq.weight_decay = NAN;
  EXPECT_EQ(fs_add_layer(run_, &layer), FS_ERR_ARGUMENT);
  EXPECT_THAT(fs_last_error(run_), HasSubstr("weight_decay"));
}

TEST_F(MisuseTest, AttentionThatDoesNotFit) {
  ASSERT_EQ(model_.Register(run_), FS_OK);
  ASSERT_EQ(fs_step_begin(run_, 0), FS_OK);
  fs_attention a = model_.Attention();
  EXPECT_EQ(fs_attention_forward(run_, 77, &a), FS_ERR_UNKNOWN_LAYER);
  EXPECT_THAT(fs_last_error(run_), HasSubstr("layer: 77"));
  EXPECT_EQ(fs_attention_forward(run_, 0, nullptr), FS_ERR_ARGUMENT);
  a.q.heads = 3;
  EXPECT_EQ(fs_attention_forward(run_, 0, &a), FS_ERR_SHAPE);
  EXPECT_THAT(fs_last_error(run_), AllOf(HasSubstr("layer 0: q.heads: 3"), HasSubstr("4")));
  a = model_.Attention();
  a.k.dim = 5;
  EXPECT_EQ(fs_attention_forward(run_, 0, &a), FS_ERR_SHAPE);
  EXPECT_THAT(fs_last_error(run_), HasSubstr("k.dim: 5, must be 8"));
  a = model_.Attention();
  a.o.seq = 3;
  EXPECT_EQ(fs_attention_forward(run_, 0, &a), FS_ERR_SHAPE);
  EXPECT_THAT(fs_last_error(run_), HasSubstr("o [batch, seq]: [2, 3], must be [2, 12]"));
  a = model_.Attention();
  a.q.dtype = FS_FP64;
  EXPECT_EQ(fs_attention_forward(run_, 0, &a), FS_ERR_DTYPE);
  EXPECT_THAT(fs_last_error(run_), HasSubstr("q.dtype: 4"));
  a = model_.Attention();
  a.size = 1u << 20;
  EXPECT_EQ(fs_attention_forward(run_, 0, &a), FS_ERR_ARGUMENT);
  const int32_t falling[] = {0, 9, 4};
  a = model_.Attention();
  a.q.batch = a.k.batch = a.v.batch = a.o.batch = 1;
  a.cu_seqlens_q = falling;
  a.n_sequences = 2;
  EXPECT_EQ(fs_attention_forward(run_, 0, &a), FS_ERR_SHAPE);
  a = model_.Attention();
  EXPECT_EQ(fs_attention_forward(run_, 0, &a), FS_OK) << "the right call still gives the step's sample";
  fs_attention b = model_.Attention();
  EXPECT_EQ(fs_attention_backward(run_, 0, &b), FS_ERR_SHAPE) << "without gradients";
  EXPECT_THAT(fs_last_error(run_), HasSubstr("d_o.data: null"));
}

TEST_F(MisuseTest, CallsAtTheWrongMoment) {
  EXPECT_EQ(fs_step_end(run_), FS_ERR_STATE);
  EXPECT_EQ(fs_step_skipped(run_), FS_ERR_STATE);
  EXPECT_EQ(fs_guard_enable(run_, nullptr), FS_ERR_STATE) << "no layers yet";
  ASSERT_EQ(model_.Register(run_), FS_OK);
  EXPECT_EQ(fs_step_begin(run_, -1), FS_ERR_ARGUMENT);
  EXPECT_THAT(fs_last_error(run_), HasSubstr("step: -1"));
  ASSERT_EQ(fs_step_begin(run_, 0), FS_OK);
  const fs_layer late = model_.Layer(5);
  EXPECT_EQ(fs_add_layer(run_, &late), FS_ERR_STATE);
  EXPECT_EQ(fs_guard_enable(run_, nullptr), FS_ERR_STATE);
  const fs_weights wq = model_.Weights(0, false), wk = model_.Weights(0, true);
  EXPECT_EQ(fs_layer_set_weights(run_, 0, &wq, &wk), FS_ERR_STATE);
  EXPECT_EQ(fs_weights_replaced(run_), FS_ERR_STATE);
  EXPECT_EQ(fs_loss(run_, 1, 0), FS_ERR_ARGUMENT);
  EXPECT_EQ(fs_loss(run_, 1, NAN), FS_ERR_ARGUMENT);
  EXPECT_EQ(fs_scalar(run_, static_cast<fs_scalar_id>(99), 1), FS_ERR_ARGUMENT);
  EXPECT_EQ(fs_event(run_, static_cast<fs_event_kind>(5), 0, ""), FS_ERR_ARGUMENT);
  EXPECT_EQ(fs_action_report(run_, "nope", FS_ACTION_TAKEN, nullptr), FS_ERR_ARGUMENT);
  float factors[4];
  EXPECT_EQ(fs_qk_clip_factors(run_, 0, 100, factors, 3), FS_ERR_SHAPE);
  EXPECT_EQ(fs_qk_clip_factors(run_, 0, -1, factors, 4), FS_ERR_ARGUMENT);
  EXPECT_EQ(fs_project_out(run_, 0, FS_WQ, 4, factors, 1, 1), FS_ERR_SHAPE);
  EXPECT_EQ(fs_step_end(run_), FS_OK);
}

// A program knows the struct of its own day: shorter than the library's, or longer.
template <typename T>
void ExpectWritesWithin(void (*init)(T*, uint32_t)) {
  for (const uint32_t size :
       {uint32_t{4}, uint32_t{8}, uint32_t{sizeof(T) - 4}, uint32_t{sizeof(T)}, uint32_t{sizeof(T) + 64}}) {
    std::vector<unsigned char> bytes(sizeof(T) + 128, 0xab);
    init(reinterpret_cast<T*>(bytes.data()), size);
    uint32_t written = 0;
    std::memcpy(&written, bytes.data(), sizeof written);
    EXPECT_EQ(written, size);
    for (size_t i = size; i < bytes.size(); ++i)
      ASSERT_EQ(bytes[i], 0xab) << "byte " << i << " of size " << size;
    for (size_t i = sizeof(T); i < size; ++i) ASSERT_EQ(bytes[i], 0) << "byte " << i << " of size " << size;
  }
  std::vector<unsigned char> bytes(sizeof(T), 0xab);
  init(reinterpret_cast<T*>(bytes.data()), 3);
  EXPECT_EQ(bytes, std::vector<unsigned char>(sizeof(T), 0xab));
  init(nullptr, sizeof(T));
}

TEST(InitTest, WritesNoByteBeyondTheSizeThatTheProgramKnows) {
  ExpectWritesWithin(fs_options_init_size);
  ExpectWritesWithin(fs_weights_init_size);
  ExpectWritesWithin(fs_layer_init_size);
  ExpectWritesWithin(fs_attention_init_size);
  ExpectWritesWithin(fs_guard_options_init_size);
  ExpectWritesWithin(fs_stats_init_size);
}

TEST(OpenTest, OptionsThatCannotBe) {
  struct Case {
    void (*spoil)(fs_options*);
    const char* message;
  };
  const Case cases[] = {
      {[](fs_options* o) { o->address = "http://x"; }, "address: 'http://x', must be unix:PATH"},
      {[](fs_options* o) { o->address = "unix:"; }, "nothing follows"},
      {[](fs_options* o) { o->address = "grpc://host"; }, "has no port"},
      {[](fs_options* o) { o->run = "/x"; }, "run: '/x' begins with '/'"},
      {[](fs_options* o) { o->rank = 4, o->world_size = 4; }, "rank: 4, must be below world_size 4"},
      {[](fs_options* o) { o->replica = 2, o->replicas = 2; }, "replica: 2"},
      {[](fs_options* o) { o->budget = NAN; }, "budget"},
      {[](fs_options* o) { o->row_every = 0; }, "row_every: 0"},
      {[](fs_options* o) { o->queue_frames = 0; }, "queue_frames: 0"},
      {[](fs_options* o) { o->start_agent = 1, o->agent_path = "agent"; },
       "agent_path: 'agent', must be absolute"},
      {[](fs_options* o) { o->size = 0; }, "options.size"},
  };
  for (const Case& c : cases) {
    std::string logged;
    fs_options options;
    fs_options_init(&options);
    options.address = "file:/dev/null";
    options.log_context = &logged;
    options.log = [](void* context, fs_log_level, const char* text) {
      *static_cast<std::string*>(context) += text;
    };
    c.spoil(&options);
    fs_run* run = reinterpret_cast<fs_run*>(1);
    if (options.size == 0) {
      ::testing::internal::CaptureStderr();
      EXPECT_EQ(fs_open(&options, &run), FS_ERR_ARGUMENT);
      EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(c.message));
    } else {
      EXPECT_EQ(fs_open(&options, &run), FS_ERR_ARGUMENT) << c.message;
      EXPECT_THAT(logged, HasSubstr(c.message));
    }
    EXPECT_EQ(run, nullptr);
  }
}

TEST(OpenTest, NotAttachedReturnsAtOnceFromEveryCall) {
  unsetenv("FORESHOCK_ADDR");
  fs_run* run = nullptr;
  ASSERT_EQ(fs_open(nullptr, &run), FS_OK);
  ToyModel model;
  for (fs_run* handle : {run, static_cast<fs_run*>(nullptr)}) {
    EXPECT_EQ(fs_attached(handle), 0);
    EXPECT_EQ(model.Register(handle), FS_OK);
    model.Step(handle, 0);
    EXPECT_EQ(fs_wants_attention(handle, 0), 0);
    fs_action action;
    EXPECT_EQ(fs_action_poll(handle, &action), FS_NONE);
    fs_stats stats;
    fs_stats_init(&stats);
    EXPECT_EQ(fs_get_stats(handle, &stats), FS_OK);
    EXPECT_EQ(stats.steps, 0u);
    EXPECT_STRNE(stats.not_recording, "");
    EXPECT_EQ(fs_close(handle, FS_FINISHED), FS_OK);
  }
}

}  // namespace
}  // namespace foreshock::testing
