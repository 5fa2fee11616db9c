#include "oci-spec/state.h"

#include <array>

#include "oci-spec/json.h"

namespace leash::oci {

namespace {

using json::OrderedValue;
using json::Reader;

constexpr std::array<std::string_view, 5> kStatusWords = {"creating", "created", "running", "paused", "stopped"};

// The fields of the specification, in its order.
OrderedValue common_fields(const State& state) {
  OrderedValue out;
  out["ociVersion"] = state.oci_version;
  out["id"] = state.id;
  return out;
}

// runc's shape for `state` and `list`: pid before status, then its own fields.
OrderedValue full(const State& state) {
  OrderedValue out = common_fields(state);
  out["pid"] = state.pid;
  out["status"] = to_string(state.status);
  out["bundle"] = state.bundle;
  out["rootfs"] = state.rootfs;
  out["created"] = state.created;
  if (!state.annotations.empty()) out["annotations"] = state.annotations;
  out["owner"] = state.owner.value_or("");
  return out;
}

OrderedValue for_hook(const State& state) {
  OrderedValue out = common_fields(state);
  out["status"] = to_string(state.status);
  if (state.pid != 0) out["pid"] = state.pid;
  out["bundle"] = state.bundle;
  if (!state.annotations.empty()) out["annotations"] = state.annotations;
  return out;
}

void read_status(Reader& reader, Status& status) {
  std::string word;
  reader.require("status", word);
  for (size_t i = 0; i < kStatusWords.size(); ++i) {
    if (kStatusWords[i] == word) {
      status = static_cast<Status>(i);
      return;
    }
  }
  reader.fail("unknown status \"" + word + "\"");
}

OrderedValue hook_value(const Hook& hook) {
  OrderedValue out;
  out["path"] = hook.path;
  if (!hook.args.empty()) out["args"] = hook.args;
  if (!hook.env.empty()) out["env"] = hook.env;
  if (hook.timeout_seconds) out["timeout"] = *hook.timeout_seconds;
  return out;
}

}  // namespace

std::string_view to_string(Status status) { return kStatusWords[static_cast<size_t>(status)]; }

std::string print(const State& state) { return json::dump(full(state), 2); }

std::string print_for_hook(const State& state) { return json::dump(for_hook(state)); }

std::string print(const std::vector<State>& states) {
  if (states.empty()) return "null";
  OrderedValue list = OrderedValue::array();
  for (const State& state : states) list.push_back(full(state));
  return json::dump(list);
}

Result<State> parse_state(std::string_view text) {
  return json::read<State>(text, [](Reader& reader, State& state) {
    reader.require("ociVersion", state.oci_version);
    reader.require("id", state.id);
    read_status(reader, state.status);
    reader.with("pid", [&](Reader& field) {
      field.read(state.pid);
      if (state.pid < 0) field.fail("must not be negative");
    });
    reader.require("bundle", state.bundle);
    reader.get("annotations", state.annotations);
    reader.get("rootfs", state.rootfs);
    reader.get("created", state.created);
    reader.get("owner", state.owner);
  });
}

std::string print(const ContainerProcessState& document) {
  OrderedValue out;
  out["ociVersion"] = document.oci_version;
  out["fds"] = document.fds;
  out["pid"] = document.pid;
  if (!document.metadata.empty()) out["metadata"] = document.metadata;
  out["state"] = for_hook(document.state);
  return json::dump(out);
}

std::string print(const ContainerRecord& record) {
  OrderedValue out;
  out["id"] = record.id;
  out["ociVersion"] = record.oci_version;
  out["bundle"] = record.bundle;
  out["rootfs"] = record.rootfs;
  out["created"] = record.created;
  out["initPid"] = record.init_pid;
  out["initStartTime"] = record.init_start_time;
  out["ownerUid"] = record.owner_uid;
  out["systemdCgroup"] = record.systemd_cgroup;
  out["rootless"] = record.is_rootless;
  out["leashed"] = record.is_leashed;
  out["noNewKeyring"] = record.no_new_keyring;
  out["policySource"] = record.policy_source;
  OrderedValue cgroups = OrderedValue::array();
  for (const CgroupPath& entry : record.cgroups) {
    OrderedValue item;
    item["controllers"] = entry.controllers;
    item["path"] = entry.path;
    cgroups.push_back(std::move(item));
  }
  out["cgroups"] = std::move(cgroups);
  out["intelRdtPath"] = record.intel_rdt_path;
  out["annotations"] = record.annotations;
  OrderedValue hooks = OrderedValue::array();
  for (const Hook& hook : record.poststop_hooks) hooks.push_back(hook_value(hook));
  out["poststop"] = std::move(hooks);
  return json::dump(out);
}

Result<ContainerRecord> parse_container_record(std::string_view text) {
  return json::read<ContainerRecord>(text, [](Reader& reader, ContainerRecord& record) {
    reader.require("id", record.id);
    reader.require("ociVersion", record.oci_version);
    reader.require("bundle", record.bundle);
    reader.get("rootfs", record.rootfs);
    reader.get("created", record.created);
    reader.get("initPid", record.init_pid);
    reader.get("initStartTime", record.init_start_time);
    reader.get("ownerUid", record.owner_uid);
    reader.get("systemdCgroup", record.systemd_cgroup);
    reader.get("rootless", record.is_rootless);
    reader.get("leashed", record.is_leashed);
    reader.get("noNewKeyring", record.no_new_keyring);
    reader.get("policySource", record.policy_source);
    reader.get_list("cgroups", record.cgroups, [](Reader& item, CgroupPath& entry) {
      item.require("controllers", entry.controllers);
      item.require("path", entry.path);
    });
    reader.get("intelRdtPath", record.intel_rdt_path);
    reader.get("annotations", record.annotations);
    reader.get_list("poststop", record.poststop_hooks, [](Reader& item, Hook& hook) {
      item.require("path", hook.path);
      item.get("args", hook.args);
      item.get("env", hook.env);
      item.get("timeout", hook.timeout_seconds);
    });
  });
}

std::string print_pids(const std::vector<int32_t>& pids) {
  if (pids.empty()) return "null";
  return json::dump(OrderedValue(pids));
}

std::string print_log_line(std::string_view level, std::string_view message, std::string_view time) {
  OrderedValue out;
  out["level"] = level;
  out["msg"] = message;
  out["time"] = time;
  return json::dump(out);
}

}  // namespace leash::oci
