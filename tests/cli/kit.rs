//! A folder, a command, a server.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use counterpoise::deploy::simulated::{AnswerBook, Entry, Profile, Server};
use counterpoise::world::Clock;
use serde_json::{Value, json};

pub struct Dir {
    pub dir: tempfile::TempDir,
}

pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Checks the exit code; shows everything where it is another.
    pub fn exits(self, code: i32) -> Ran {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Checks that stderr says each of these.
    pub fn says(self, words: &[&str]) -> Ran {
        for word in words {
            assert!(self.err.contains(word), "stderr does not say `{word}`:\n{}", self.err);
        }
        self
    }
}

impl Dir {
    pub fn new() -> Dir {
        Dir { dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_counterpoise"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        // What `doctor --bench` keeps for the user's own runs is none of a test's.
        command.env("XDG_CACHE_HOME", self.dir.path().join("cache"));
        for name in ["GITHUB_STEP_SUMMARY", "NO_COLOR"] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[])
    }

    pub fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> Ran {
        let output = self.command(args).envs(env.iter().copied()).output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// `n` questions that a server of [`server`] can answer.
pub fn questions(n: usize) -> Vec<(String, String)> {
    (0..n).map(|i| (format!("What is the name of star {i}?"), format!("star name {i}"))).collect()
}

/// A server on a free loopback port that answers the questions as its profile says.
pub fn server(profile: Value) -> Server {
    server_at(profile, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
}

/// The same at an address.
pub fn server_at(profile: Value, listen: SocketAddr) -> Server {
    let mut fields = json!({"ttft_ms": {"fixed": 2.0}, "token_gap_ms": {"fixed": 0.5}});
    fields.as_object_mut().unwrap().extend(profile.as_object().unwrap().clone());
    let entries = questions(400).into_iter().map(|(q, a)| Entry::new(q, a)).collect();
    let profile = Profile::from_value(fields).unwrap();
    Server::start(profile, AnswerBook::from_entries(entries), 7, listen, Clock::start()).unwrap()
}

/// A suite over `n` questions. `base` and `cand` are the deployments' fields in YAML flow style; `more` is appended.
pub fn suite(n: usize, base: &str, cand: Option<&str>, more: &str) -> String {
    let mut text = format!("suite: cli\ndeployments:\n  base: {{{base}}}\n");
    if let Some(cand) = cand {
        writeln!(text, "  cand: {{extends: base, optimization: release, {cand}}}").unwrap();
    }
    text += "load: {mode: closed, concurrency: 4, warmup_requests: 2}\n";
    text += more;
    text += "tasks:\n  - name: stars\n    category: sky\n    prompt: \"{{ question }}\"\n    graders: [{exact: {}}]\n";
    text += "    dataset:\n      cases:\n";
    for (question, answer) in questions(n) {
        writeln!(text, "        - {{question: \"{question}\", answer: \"{answer}\"}}").unwrap();
    }
    text
}

pub fn api(url: &str) -> String {
    format!("api: openai-chat, url: \"{url}\", model: simulated, ready_timeout: 1s")
}

/// Every file below `folder`, as text where it is text.
pub fn all_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            text += &String::from_utf8_lossy(&std::fs::read(&path).unwrap());
        }
    }
    text
}
