// Metric families under construction: samples of one name are put together, whoever adds them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/metric_family.h"

namespace foreshock::exporter {

class Families {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // `name` is without "foreshock_"; counters get "_total".
  void Gauge(const std::string& name, const std::string& help, const Labels& labels, double value);
  void Counter(const std::string& name, const std::string& help, const Labels& labels, double value);
  // What this process uses, under the names that every Prometheus client gives: process_cpu_seconds_total,
  // process_resident_memory_bytes and so on. Nothing where /proc is not to be had.
  void Process();
  // The text of all, by name.
  std::string Text() const;

 private:
  prometheus::MetricFamily& Family(const std::string& name, const std::string& help,
                                   prometheus::MetricType type);

  std::map<std::string, prometheus::MetricFamily> families_;
};

}  // namespace foreshock::exporter
