#include "families.h"

#include <sstream>

#include "foreshock/base/process.h"
#include "prometheus/text_serializer.h"

namespace foreshock::exporter {
namespace {

prometheus::ClientMetric Metric(const Families::Labels& labels) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  return metric;
}

}  // namespace

prometheus::MetricFamily& Families::Family(const std::string& name, const std::string& help,
                                           prometheus::MetricType type) {
  prometheus::MetricFamily& family = families_[name];
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

void Families::Gauge(const std::string& name, const std::string& help, const Labels& labels, double value) {
  prometheus::ClientMetric metric = Metric(labels);
  metric.gauge.value = value;
  Family("foreshock_" + name, help, prometheus::MetricType::Gauge).metric.push_back(std::move(metric));
}

void Families::Counter(const std::string& name, const std::string& help, const Labels& labels, double value) {
  prometheus::ClientMetric metric = Metric(labels);
  metric.counter.value = value;
  Family("foreshock_" + name + "_total", help, prometheus::MetricType::Counter)
      .metric.push_back(std::move(metric));
}

void Families::Process() {
  const auto usage = ReadProcessUsage();
  if (!usage.ok()) return;
  const auto add = [this](const char* name, const char* help, double value) {
    prometheus::ClientMetric metric;
    metric.gauge.value = value;
    Family(name, help, prometheus::MetricType::Gauge).metric.push_back(std::move(metric));
  };
  prometheus::ClientMetric cpu;
  cpu.counter.value = usage->cpu_seconds;
  Family("process_cpu_seconds_total", "processor time of the server, in the kernel and outside",
         prometheus::MetricType::Counter)
      .metric.push_back(std::move(cpu));
  add("process_start_time_seconds", "when the server started, Unix time", usage->start_unix_seconds);
  add("process_virtual_memory_bytes", "address space of the server",
      static_cast<double>(usage->virtual_bytes));
  add("process_resident_memory_bytes", "memory of the server", static_cast<double>(usage->resident_bytes));
  add("process_threads", "threads of the server", static_cast<double>(usage->threads));
  add("process_open_fds", "open file descriptors of the server", static_cast<double>(usage->open_fds));
  add("process_max_fds", "as many may be open", static_cast<double>(usage->max_fds));
}

std::string Families::Text() const {
  std::vector<prometheus::MetricFamily> list;
  for (const auto& [name, family] : families_) list.push_back(family);
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, list);
  return out.str();
}

}  // namespace foreshock::exporter
