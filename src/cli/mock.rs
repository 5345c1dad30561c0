//! `mock`: the simulated server, stand-alone.

use std::sync::Arc;

use super::args::MockArgs;
use super::error::CliError;
use super::exit::Exit;
use super::targets;
use crate::world::World;

/// Sampling of a mock's draws: fixed, so that two mocks of one profile answer alike.
const SEED: u64 = 7;

pub fn mock(args: &MockArgs, world: &Arc<dyn World>) -> Result<Exit, CliError> {
    let server = targets::serve("mock", &args.profile, SEED, args.listen, world)?;
    say!("{} listens on http://{}/v1 (simulated; interrupt to stop)", args.profile, server.addr());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::Runtime)?;
    runtime.block_on(tokio::signal::ctrl_c()).map_err(CliError::Runtime)?;
    drop(server);
    Ok(Exit::Pass)
}
