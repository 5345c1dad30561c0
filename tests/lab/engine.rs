//! Where the lab's servers are, and runs against them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use counterpoise::drive::{Attempt, Event};
use serde_json::Value;

/// The lab's environment file as `lab/lab up --env FILE` writes it.
pub struct Lab {
    env: BTreeMap<String, String>,
}

/// A run against the lab.
pub struct Run {
    pub dir: tempfile::TempDir,
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Lab {
    /// The lab that runs. Without one this fails: a test on a real engine is not skipped.
    #[allow(clippy::disallowed_methods, reason = "the one place where the lab is found")]
    pub fn found() -> Lab {
        let path = std::env::var("COUNTERPOISE_LAB_ENV")
            .expect("COUNTERPOISE_LAB_ENV is not set: run ./test, or `lab/lab up --env FILE` and export it");
        let text = std::fs::read_to_string(&path).unwrap();
        let line = |line: &str| {
            let (name, value) = line.strip_prefix("export ")?.split_once('=')?;
            Some((name.to_owned(), value.trim_matches(['\'', '"']).to_owned()))
        };
        Lab { env: text.lines().filter_map(line).collect() }
    }

    pub fn run(&self, args: &[&str]) -> Run {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("run").display().to_string();
        let args: Vec<&str> = args.iter().copied().chain(["--out", &out]).collect();
        command(dir, &args, &self.env)
    }

    /// The smoke suite against the baseline's server, with a key.
    pub fn smoke(&self, key: &str) -> Run {
        let mut env = BTreeMap::from([("SMOKE_KEY".to_owned(), key.to_owned())]);
        env.insert("SMOKE_URL".to_owned(), self.env["LAB_Q8_URL"].clone());
        env.insert("SMOKE_MODEL".to_owned(), self.env["LAB_Q8_MODEL"].clone());
        let lab = Lab { env };
        lab.run(&["run", "suites/smoke.yaml", "--set", "deployments.endpoint.api_key_env=SMOKE_KEY"])
    }

    /// Grades a run again where no variable names a server.
    pub fn regrade(run: &Run) -> Run {
        let path = run.dir.path().join("run").display().to_string();
        command(tempfile::tempdir().unwrap(), &["regrade", &path], &BTreeMap::new())
    }

    /// llama.cpp's own counters of an arm, from its metrics page.
    pub fn counters(&self, arm: &str) -> BTreeMap<String, f64> {
        let name = format!("LAB_{}_METRICS_URL", arm.to_uppercase().replace('-', "_"));
        let page = get(&self.env[&name]);
        let line = |line: &str| {
            let (name, value) = line.strip_prefix("llamacpp:")?.split_once(' ')?;
            Some((name.to_owned(), value.trim().parse().ok()?))
        };
        page.lines().filter_map(line).collect()
    }
}

impl Run {
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join("run").join(name)).unwrap()
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// Every attempt, warm-up included.
    pub fn attempts(&self) -> Vec<Attempt> {
        let journal = self.read("journal.jsonl");
        let event = |line: &str| match serde_json::from_str::<Event>(line) {
            Ok(Event::Attempt(attempt)) => Some(*attempt),
            _ => None,
        };
        journal.lines().skip(1).filter_map(event).collect()
    }
}

fn command(dir: tempfile::TempDir, args: &[&str], env: &BTreeMap<String, String>) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_counterpoise"));
    command.args(args).current_dir(root()).env_clear().envs(env);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { dir, code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A plain GET on loopback: the page is small and the server closes.
fn get(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}
