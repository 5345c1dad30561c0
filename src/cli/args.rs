//! What was typed.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Weigh the quality that an LLM optimization costs against the speed and money it buys.
#[derive(Debug, Parser)]
#[command(name = "counterpoise", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes, the first that holds: 2 bad input, 5 sandbox needed and not to be had, 4 invalid run,\n\
    1 a gate failed, 3 inconclusive, 0 pass or no gates, 130 interrupted."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

// One value for the whole process: its size is nobody's cost.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Do the whole job against built-in simulated deployments, offline, in under 30 s
    Demo(DemoArgs),
    /// Write a commented suite to start from
    Init(InitArgs),
    /// Ask, grade, time, price, compare, and report
    Run(RunArgs),
    /// Show every mistake of a suite at once, and run its examples
    Validate(ValidateArgs),
    /// Show what a run would send; sends nothing
    Plan(PlanArgs),
    /// Grade a recorded run again; asks no server
    Regrade(RegradeArgs),
    /// Compare two recorded runs, paired by prompt
    Compare(CompareArgs),
    /// Raise load step by step, as the suite's `sweep` says
    Sweep(RunArgs),
    /// Write reports of a recorded run
    Report(ReportArgs),
    /// Serve the simulated deployment
    Mock(MockArgs),
    /// Check this host: clock, sockets, sandbox; with --bench the client's own error
    Doctor(DoctorArgs),
}

#[derive(Clone, Debug, Default, Args)]
pub struct Outputs {
    /// Write the HTML report to FILE (the run directory always gets one)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write summary.json to FILE
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a `JUnit` report, one test case for each gate
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write a Markdown summary
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write one row for each request as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write one row for each request as Parquet
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Run directory (default: runs/<time>-demo-<hash>)
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub outputs: Outputs,
    #[arg(long, value_enum, default_value_t)]
    pub progress: ProgressMode,
}

#[derive(Debug, Args)]
pub struct InitArgs {
    /// The file to write; never overwritten
    #[arg(default_value = "suite.yaml")]
    pub file: PathBuf,
    /// URL of the baseline deployment, version path included
    #[arg(long, value_name = "URL")]
    pub baseline: Option<String>,
    /// URL of the candidate deployment, version path included
    #[arg(long, value_name = "URL")]
    pub candidate: Option<String>,
}

/// What of a suite is taken, and what of it is replaced.
#[derive(Clone, Debug, Default, Args)]
pub struct Selection {
    /// Only tasks whose name matches (`*` and `?`)
    #[arg(long, value_name = "GLOB")]
    pub task: Option<String>,
    /// At most N rows of each task
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Replace a value of the suite, e.g. deployments.baseline.url=http://127.0.0.1:8101/v1
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// A suite file, or builtin:NAME; may be left out with --resume
    #[arg(required_unless_present = "resume")]
    pub suite: Option<String>,
    /// Run directory (default: runs/<time>-<suite>-<hash>)
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub out: Option<PathBuf>,
    /// Ask only what a recorded run has no outcome for
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Only this arm (repeatable); with --resume it fills a `sequential` run
    #[arg(long, value_name = "NAME")]
    pub arm: Vec<String>,
    #[command(flatten)]
    pub selection: Selection,
    /// Stop as soon as the gates are decided
    #[arg(long)]
    pub until_decided: bool,
    /// What an inconclusive verdict does: `fail` exits 3, `warn` and `pass` exit 0
    #[arg(long, value_enum, default_value_t)]
    pub inconclusive: OnInconclusive,
    #[command(flatten)]
    pub outputs: Outputs,
    #[arg(long, value_enum, default_value_t)]
    pub progress: ProgressMode,
}

#[derive(Debug, Args)]
pub struct ValidateArgs {
    /// Suite files, or builtin:NAME
    #[arg(required = true)]
    pub suites: Vec<String>,
    /// How mistakes are written
    #[arg(long, value_enum, default_value_t)]
    pub format: DiagnosticFormat,
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    pub suite: String,
    #[command(flatten)]
    pub selection: Selection,
    /// Show what `sweep` would send
    #[arg(long)]
    pub sweep: bool,
    /// Print the plan itself as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct RegradeArgs {
    /// A run directory
    pub run: PathBuf,
    /// Take graders, prices and gates from this suite
    #[arg(long, value_name = "SUITE")]
    pub suite: Option<String>,
    #[arg(long, value_enum, default_value_t)]
    pub inconclusive: OnInconclusive,
    #[command(flatten)]
    pub outputs: Outputs,
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A run directory
    pub run: PathBuf,
    #[command(flatten)]
    pub outputs: Outputs,
    /// Write one row for each request and grader as CSV
    #[arg(long, value_name = "FILE")]
    pub grades_csv: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// RUN[:arm]
    pub a: String,
    /// RUN[:arm]
    pub b: String,
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    #[arg(long, value_name = "SUITE")]
    pub suite: Option<String>,
}

#[derive(Debug, Args)]
pub struct MockArgs {
    /// Address to listen on; loopback unless you say otherwise
    #[arg(long, default_value = "127.0.0.1:8100", value_name = "ADDR")]
    pub listen: SocketAddr,
    /// A profile file, or builtin:NAME
    #[arg(long, default_value = "builtin:exact", value_name = "FILE")]
    pub profile: String,
}

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Measure the client's own error against a simulated server, beside a bare read loop
    #[arg(long)]
    pub bench: bool,
    /// Loads of --bench: streams at a time, 100 tokens per second each
    #[arg(long, value_delimiter = ',', default_value = "64,256,1000", value_name = "N,…", requires = "bench")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4_000))]
    pub streams: Vec<u32>,
    /// One load of --bench, in this process
    #[arg(long, hide = true, value_name = "N", conflicts_with = "bench")]
    pub bench_case: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// Bars on a terminal, plain lines elsewhere
    #[default]
    Auto,
    Plain,
    None,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnInconclusive {
    #[default]
    Fail,
    Warn,
    Pass,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DiagnosticFormat {
    /// The line with a caret and a hint
    #[default]
    Full,
    /// One line each
    Concise,
    Json,
}
