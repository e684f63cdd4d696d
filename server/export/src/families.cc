#include "families.h"

#include <sstream>

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

std::string Families::Text() const {
  std::vector<prometheus::MetricFamily> list;
  for (const auto& [name, family] : families_) list.push_back(family);
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, list);
  return out.str();
}

}  // namespace foreshock::exporter
