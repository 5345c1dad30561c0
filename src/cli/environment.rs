//! What a run's figures depend on beside its plan: recorded with each session, shown in the report.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

/// Facts of this host and this build. Absent where the host does not tell.
pub fn collect() -> BTreeMap<String, Value> {
    let mut facts = BTreeMap::new();
    facts.insert("harness_version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    facts.insert("os".to_owned(), json!(std::env::consts::OS));
    facts.insert("arch".to_owned(), json!(std::env::consts::ARCH));
    let mut text = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            facts.insert(name.to_owned(), json!(value));
        }
    };
    text("kernel", read_line("/proc/sys/kernel/osrelease"));
    text("cpu", cpu_model());
    if let Ok(cores) = std::thread::available_parallelism() {
        facts.insert("cores".to_owned(), json!(cores.get()));
    }
    facts
}

fn read_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim().to_owned())
}
