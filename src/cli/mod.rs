//! The command line: what was typed becomes a call of the library, and its end an exit code.

/// A line to stderr. A reader that has gone away is no failure, so nothing here panics.
macro_rules! say {
    ($($what:tt)*) => { $crate::cli::err(&(format!($($what)*) + "\n")) };
}

mod args;
mod bare;
mod bench;
mod calibrations;
mod consumer;
mod doctor;
mod environment;
mod error;
mod exit;
mod export;
mod finish;
mod init;
mod lane_pool;
mod mock;
mod plan;
mod power;
mod progress;
mod regrade;
mod run;
mod session;
mod targets;
mod validate;

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use clap::Parser;

use args::{Cli, Command};
use error::CliError;
pub use exit::Exit;

use crate::world::{RealWorld, World};

/// Runs the command line of this process.
pub fn main() -> std::process::ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // Help and version are asked for; everything else is a flag that can't be used.
            return std::process::ExitCode::from(if error.use_stderr() { Exit::BadInput.code() } else { 0 });
        }
    };
    let world: Arc<dyn World> = Arc::new(RealWorld::new());
    let exit = dispatch(cli.command, &world).unwrap_or_else(|error| {
        print_error(&error, &world);
        error.exit()
    });
    std::process::ExitCode::from(exit.code())
}

fn dispatch(command: Command, world: &Arc<dyn World>) -> Result<Exit, CliError> {
    match command {
        Command::Demo(args) => run::demo(args, world),
        Command::Init(args) => init::init(&args),
        Command::Run(args) => run::run(args, run::Purpose::Run, world),
        Command::Validate(args) => Ok(validate::validate(&args, world)),
        Command::Plan(args) => plan::plan(&args, world),
        Command::Regrade(args) => regrade::regrade(&args, world),
        Command::Report(args) => regrade::report(&args, world),
        Command::Mock(args) => mock::mock(&args, world),
        Command::Doctor(args) => doctor::doctor(&args, world),
        Command::Compare(_) => Err(CliError::NotYet("compare")),
        Command::Sweep(args) => run::run(args, run::Purpose::Sweep, world),
    }
}

fn print_error(error: &CliError, world: &Arc<dyn World>) {
    match error {
        CliError::Suite(diagnostics) => eprint!("{}", diagnostics.full(colour_on(&std::io::stderr(), world))),
        other => say!("error: {other}"),
    }
}

/// Colour only on a terminal, and never where `NO_COLOR` is set.
fn colour_on(stream: &impl IsTerminal, world: &Arc<dyn World>) -> bool {
    stream.is_terminal() && world.env("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Progress and diagnostics go to stderr.
fn err(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Results go to stdout. A reader that has gone away (`| head`) is no failure.
fn out(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
