//! From a suite's deployments to what lanes and probes can use: keys looked up, simulated servers started.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use rust_decimal::Decimal;

use super::error::CliError;
use crate::analyze::money;
use crate::deploy::Target;
use crate::deploy::simulated::{AnswerBook, Profile, Server};
use crate::drive::Attempt;
use crate::plan::Plan;
use crate::spec::{Api, Deployment, Suite};
use crate::world::World;

/// A deployment that can be asked. A simulated one owns its server, which stops with it.
pub struct Endpoint {
    pub target: Arc<Target>,
    _server: Option<Server>,
}

/// Makes every deployment's endpoint; simulated ones are served on loopback sockets of this process.
pub fn start(live: &Suite, plan: &Plan, world: &Arc<dyn World>) -> Result<BTreeMap<String, Endpoint>, CliError> {
    let mut endpoints = BTreeMap::new();
    for deployment in &live.deployments {
        let endpoint = if deployment.api == Api::Simulated {
            simulated(deployment, plan.suite.sampling.seed, world)?
        } else {
            let url = deployment.url.clone().unwrap_or_default();
            Endpoint { target: Arc::new(target(deployment, url, key(deployment, world)?)), _server: None }
        };
        endpoints.insert(deployment.name.clone(), endpoint);
    }
    Ok(endpoints)
}

/// Whether every key that the suite names is there: said before anything is made or sent.
pub fn check_keys(live: &Suite, world: &Arc<dyn World>) -> Result<(), CliError> {
    live.deployments.iter().try_for_each(|deployment| key(deployment, world).map(|_| ()))
}

fn key(deployment: &Deployment, world: &Arc<dyn World>) -> Result<Option<String>, CliError> {
    let Some(variable) = &deployment.api_key_env else { return Ok(None) };
    let missing = || CliError::MissingKey { deployment: deployment.name.clone(), variable: variable.clone() };
    world.env(variable).filter(|key| !key.trim().is_empty()).map(Some).ok_or_else(missing)
}

fn target(deployment: &Deployment, url: String, api_key: Option<String>) -> Target {
    Target {
        name: deployment.name.clone(),
        api: deployment.api,
        url,
        model: deployment.model.clone(),
        api_key,
        headers: deployment.headers.clone(),
        query: deployment.query.clone(),
        body: deployment.body.clone(),
        ca_file: deployment.tls_ca_file.clone(),
        timeouts: deployment.timeouts,
    }
}

fn simulated(deployment: &Deployment, seed: u64, world: &Arc<dyn World>) -> Result<Endpoint, CliError> {
    let reference = deployment.profile.as_deref().unwrap_or("builtin:exact");
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = serve(&deployment.name, reference, seed, listen, world)?;
    let url = format!("http://{}/v1", server.addr());
    Ok(Endpoint { target: Arc::new(target(deployment, url, None)), _server: Some(server) })
}

/// Starts a simulated server with the answers that its profile names.
pub fn serve(
    deployment: &str,
    reference: &str,
    seed: u64,
    listen: SocketAddr,
    world: &Arc<dyn World>,
) -> Result<Server, CliError> {
    let profile =
        Profile::load(reference).map_err(|error| CliError::Profile { deployment: deployment.to_owned(), error })?;
    let base = Path::new(reference).parent().unwrap_or(Path::new("."));
    let book = AnswerBook::of_profile(&profile, base)?;
    Ok(Server::start(profile, book, seed, listen, world.clock())?)
}

/// USD of an attempt by its deployment's token prices; `None` where the price or the usage is not known.
pub fn spend(deployment: &Deployment, attempt: &Attempt) -> Option<Decimal> {
    let price = deployment.price.as_ref()?;
    money::attempt_spend(price, attempt)
}
