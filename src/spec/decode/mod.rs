//! From a checked tree to a [`Suite`]: defaults, names, files, and what only several places together can show.

mod deployment;
mod gate;
mod grader;
mod load;
mod model;
mod task;
mod templates;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

pub use deployment::file_mistake;

use super::diagnostic::{Mistake, Sink};
use super::files::Root;
use super::keys::{BUDGET, COMPARISON, RETRY, SUITE};
use super::keys_workload::WORKLOAD;
use super::node::Node;
use super::scalar;
use super::source::Sources;
use super::suggest;
use super::suite::{Api, ArmsMode, Budget, CacheMode, Comparison, Deployment, Retry, SloTarget, SpeedMetric, Suite};
use super::view::View;
use super::workload::Workload;
use crate::units::Span;
use crate::world::World;

/// What decoding needs beside the tree.
pub struct Context<'c> {
    pub sink: &'c mut Sink,
    pub root: &'c Root,
    pub world: &'c dyn World,
    pub sources: &'c Sources,
}

impl Context<'_> {
    pub fn report(&mut self, mistake: Mistake) {
        self.sink.report(mistake);
    }

    /// A text with its variables filled in; `None` where one is not set, which is told elsewhere.
    pub fn filled(&self, text: &str) -> Option<String> {
        super::env::fill(text, self.world).ok()
    }
}

/// Decodes the whole tree. Where mistakes were found the result is filled up with anything and must not be used.
pub fn suite(node: &Node, cx: &mut Context<'_>) -> Suite {
    let view = View::new(Some(node), &SUITE, super::source::Place { end: node.place.start + 1, ..node.place });
    let deployments = deployment::all(&view, cx);
    let comparisons = comparisons(&view, &deployments, cx);
    let arms = view.word("arms").unwrap_or(ArmsMode::Alternate);
    let tasks = task::all(&view, cx);
    let slo = slo(&view);
    let load = load::load(&view, cx);
    let sweep = load::sweep(&view, cx);
    let capacity = load::capacity(&view, sweep.as_ref(), &slo, cx);
    let gates = gate::all(
        &view,
        &gate::Known {
            tasks: &tasks,
            deployments: &deployments,
            comparisons: &comparisons,
            slo: &slo,
            load: load.clone(),
        },
        cx,
    );
    check_hosts(&view, arms, &deployments, &comparisons, cx);
    let noise_floor = view.boolean("noise_floor").unwrap_or_else(|| noise_floor(arms, &deployments, &comparisons));
    let workload = workload::workload(&view, &tasks, cx);
    workload::check_stream(&view, workload.as_ref(), &slo, &gates, cx);
    let twins = noise_floor && arms != ArmsMode::Together && !comparisons.is_empty();
    let cache = cache(&view, &deployments, twins, workload.as_ref(), cx);
    Suite {
        name: view.text("suite").unwrap_or_default(),
        root: cx.root.path().to_owned(),
        noise_floor,
        sampling: deployment::sampling(&view, None),
        repeats: view.count("repeats").unwrap_or(1),
        arms,
        cache,
        retry: retry(&view),
        budget: budget(&view),
        load,
        workload,
        sweep,
        capacity,
        slo,
        tasks: tasks.into_iter().map(|t| t.task).collect(),
        gates,
        deployments,
        comparisons,
    }
}

fn retry(view: &View<'_>) -> Retry {
    let view = view.section("retry", &RETRY);
    Retry {
        max_attempts: view.count("max_attempts").unwrap_or(1),
        on: view.words("on"),
        base: view.duration("base").unwrap_or(Span::from_ms(0)),
        cap: view.duration("cap").unwrap_or(Span::from_ms(0)),
    }
}

fn budget(view: &View<'_>) -> Budget {
    let view = view.section("budget", &BUDGET);
    Budget { usd: view.usd("usd"), requests: view.integer("requests"), time: view.duration("time") }
}

fn slo(view: &View<'_>) -> Vec<SloTarget> {
    let entries = view.node("slo").and_then(Node::entries).unwrap_or_default();
    let target = |entry: &super::node::Entry| {
        let metric: SpeedMetric = entry.key.text.parse().ok()?;
        let at_most = match metric {
            SpeedMetric::ErrorRate => scalar::share(&entry.value).ok()?,
            _ => scalar::duration(&entry.value).ok()?.as_ms(),
        };
        Some(SloTarget { metric, at_most })
    };
    entries.iter().filter_map(target).collect()
}

fn comparisons(view: &View<'_>, deployments: &[Deployment], cx: &mut Context<'_>) -> Vec<Comparison> {
    if view.node("comparisons").is_none() {
        let mut names = deployments.iter().map(|d| d.name.clone());
        let Some(baseline) = names.next() else { return vec![] };
        return names.map(|candidate| Comparison { baseline: baseline.clone(), candidate }).collect();
    }
    let mut seen = BTreeMap::new();
    let mut all = vec![];
    for node in view.items("comparisons") {
        let pair = View::new(Some(node), &COMPARISON, node.place);
        let sides = ["baseline", "candidate"].map(|side| known_deployment(&pair, side, deployments, cx));
        let [Some(baseline), Some(candidate)] = sides else { continue };
        if baseline == candidate {
            let message = format!("`{candidate}` is compared with itself");
            let hint = "`noise_floor: true` runs the baseline a second time";
            cx.report(Mistake::new("bad-comparison", pair.place_of("candidate"), message).hint(hint));
        }
        if let Some(first) = seen.insert((baseline.clone(), candidate.clone()), node.place) {
            let message = "this comparison is there twice";
            cx.report(Mistake::new("duplicate-name", node.place, message).earlier(first, "first written"));
        }
        all.push(Comparison { baseline, candidate });
    }
    all
}

fn known_deployment(view: &View<'_>, key: &str, all: &[Deployment], cx: &mut Context<'_>) -> Option<String> {
    let name = view.text(key)?;
    if all.iter().any(|d| d.name == name) {
        return Some(name);
    }
    let names = || all.iter().map(|d| d.name.as_str());
    let message = format!("`{name}` is not a deployment of this suite");
    let mistake = Mistake::new("unknown-deployment", view.place_of(key), message);
    let help = format!("deployments: {}", suggest::list(names()));
    cx.report(mistake.maybe_hint(suggest::did_you_mean(&name, names())).help(help));
    None
}

/// On where there is a candidate and the baseline's tokens cost nothing. Off where arms run together: the twin would
/// double the load of the baseline's host.
fn noise_floor(arms: ArmsMode, deployments: &[Deployment], comparisons: &[Comparison]) -> bool {
    let free = |name: &str| {
        deployments.iter().filter(|d| d.name == name).all(|d| {
            d.price.as_ref().is_none_or(|p| {
                let by_use = [
                    p.input_usd_per_mtok,
                    p.cached_input_usd_per_mtok,
                    p.cache_write_usd_per_mtok,
                    p.output_usd_per_mtok,
                    p.usd_per_request,
                ];
                by_use.iter().flatten().all(rust_decimal::Decimal::is_zero)
            })
        })
    };
    arms != ArmsMode::Together && !comparisons.is_empty() && comparisons.iter().all(|c| free(&c.baseline))
}

/// What is done about caches: what one arm leaves in a server's cache would serve the next one, so that arms of one
/// origin keep it out of play unless the suite says otherwise.
fn cache(
    view: &View<'_>,
    deployments: &[Deployment],
    twins: bool,
    workload: Option<&Workload>,
    cx: &mut Context<'_>,
) -> CacheMode {
    let real = || deployments.iter().filter(|d| d.api != Api::Simulated);
    let origin = |d: &Deployment| {
        let url = d.url.as_deref().and_then(|url| cx.filled(url));
        Deployment { url: url.or_else(|| d.url.clone()), ..d.clone() }.origin()
    };
    let origins: BTreeSet<String> = real().map(origin).collect();
    let shared = origins.len() < real().count() || twins && !origins.is_empty();
    let mode = view.word("cache").unwrap_or(if shared { CacheMode::Cold } else { CacheMode::AsIs });
    if mode == CacheMode::Cold && workload.is_some_and(|w| w.shared_prefix.is_some()) {
        let workload = view.section("workload", &WORKLOAD);
        let message = "prompts share a prefix, and no cache may hold it: the run is `cache: cold`";
        let hint = "write `cache: as_is` to measure with the server's cache";
        cx.report(Mistake::new("cold-prefix", workload.key_place("shared_prefix"), message).hint(hint).warning());
    }
    mode
}

/// Arms that run together must not share hardware, else each slows the other down.
fn check_hosts(
    view: &View<'_>,
    arms: ArmsMode,
    deployments: &[Deployment],
    comparisons: &[Comparison],
    cx: &mut Context<'_>,
) {
    if arms != ArmsMode::Together {
        return;
    }
    let host = |name: &str| deployments.iter().find(|d| d.name == name).and_then(|d| d.host.as_deref());
    for pair in comparisons {
        let message = match (host(&pair.baseline), host(&pair.candidate)) {
            (Some(a), Some(b)) if a == b => {
                format!("`{}` and `{}` share the host `{a}` and can't run together", pair.baseline, pair.candidate)
            }
            (Some(_), Some(_)) => continue,
            _ => format!("`{}` and `{}` need a `host` each to run together", pair.baseline, pair.candidate),
        };
        cx.report(Mistake::new("shared-host", view.place_of("arms"), message).hint("use `arms: alternate`"));
    }
}
