//! `hardware` and `model_shape`: sizes that are stated, or read from a model's own file.

use std::path::{Path, PathBuf};

use super::Context;
use crate::spec::diagnostic::Mistake;
use crate::spec::keys::{HARDWARE, MODEL_SHAPE};
use crate::spec::model::{Hardware, ModelShape, ShapeSource};
use crate::spec::view::View;
use crate::spec::{env, files, gguf, hf_config};

const MAX_CONFIG_BYTES: u64 = 4 << 20;

pub fn hardware(deployment: &View<'_>) -> Option<Hardware> {
    let view = deployment.present("hardware", &HARDWARE)?;
    Some(Hardware {
        bandwidth_gb_s: view.number("bandwidth_gb_s"),
        tflops: view.number("tflops"),
        memory_gb: view.number("memory_gb"),
    })
}

/// What is stated goes before what the file says.
pub fn shape(deployment: &View<'_>, cx: &mut Context<'_>) -> Option<ModelShape> {
    let view = deployment.present("model_shape", &MODEL_SHAPE)?;
    if view.node("gguf").is_some() && view.node("config").is_some() {
        let message = "`gguf` and `config` both say the model's sizes";
        cx.report(Mistake::new("misplaced-key", view.key_place("config"), message).hint("keep one of them"));
        return None;
    }
    let mut shape = match (view.node("gguf"), view.node("config")) {
        (Some(_), _) => from_file(&view, "gguf", cx)?,
        (None, Some(_)) => from_file(&view, "config", cx)?,
        (None, None) => ModelShape::unknown(ShapeSource::Stated),
    };
    state(&mut shape, &view, cx);
    let says_nothing = shape.params.is_none() && shape.kv_elements.is_none();
    if says_nothing {
        let message = "`model_shape` says neither the weights nor the KV cache";
        let hint = "write `params` and `bytes_per_weight`, or name a file: `gguf:` or `config:`";
        cx.report(Mistake::new("missing-key", view.place, message).hint(hint));
    }
    Some(shape)
}

fn state(shape: &mut ModelShape, view: &View<'_>, cx: &mut Context<'_>) {
    let (params, active) = (view.number("params"), view.number("active_params"));
    // The file's own bytes of a weight, where only its number is stated anew.
    let of_file = shape.weight_bytes.zip(shape.params).map(|(bytes, params)| bytes / params);
    let bytes_per_weight = view.number("bytes_per_weight").or(of_file);
    shape.params = params.or(shape.params);
    shape.active_params = active.or(params).or(shape.active_params);
    if let (Some(all), Some(active)) = (shape.params, shape.active_params)
        && active > all
    {
        let message = "`active_params` are more than all weights";
        cx.report(Mistake::new("out-of-range", view.place_of("active_params"), message));
    }
    if params.is_some() || active.is_some() || view.node("bytes_per_weight").is_some() {
        shape.weight_bytes = shape.params.zip(bytes_per_weight).map(|(params, bytes)| params * bytes);
        shape.read_bytes = shape.active_params.zip(bytes_per_weight).map(|(active, bytes)| active * bytes);
    }
    let heads = ["layers", "kv_heads", "head_dim"];
    let stated = heads.map(|key| view.count(key).map(f64::from));
    if let [Some(layers), Some(kv_heads), Some(head_dim)] = stated {
        shape.kv_elements = Some(2.0 * layers * kv_heads * head_dim);
    } else if let Some(missing) = heads.into_iter().zip(stated).find(|(_, value)| value.is_none())
        && stated.iter().any(Option::is_some)
    {
        let message = format!("the KV cache needs `{}` too", missing.0);
        cx.report(
            Mistake::new("missing-key", view.place, message).hint("`layers`, `kv_heads` and `head_dim` together"),
        );
    }
    if let Some(kv_bytes) = view.number("kv_bytes") {
        shape.kv_bytes = kv_bytes;
    }
}

fn from_file(view: &View<'_>, key: &'static str, cx: &mut Context<'_>) -> Option<ModelShape> {
    let written = view.text(key)?;
    let place = view.place_of(key);
    let path = path_of(&written, place, cx)?;
    // What a variable holds is not shown; the file's own name is, once it is known to be a model.
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let read = match key {
        "gguf" => read_gguf(&path, &name),
        _ => read_config(&path, &name),
    };
    read.map_err(|why| {
        let hint = "state `params`, `bytes_per_weight`, `layers`, `kv_heads` and `head_dim` instead";
        cx.report(Mistake::new("unreadable-file", place, format!("`{written}` tells no shape: {why}")).hint(hint));
    })
    .ok()
}

/// A path that comes from a variable is the user's own word, not the suite's: it may lie anywhere.
fn path_of(written: &str, place: crate::spec::source::Place, cx: &mut Context<'_>) -> Option<PathBuf> {
    let filled = cx.filled(written)?;
    if env::has_variable(written) && Path::new(&filled).is_absolute() {
        return Some(PathBuf::from(filled));
    }
    super::task::resolve(written, place, cx)?;
    cx.root.resolve(&filled).ok()
}

fn read_gguf(path: &Path, name: &str) -> Result<ModelShape, String> {
    let file = files::open(path).map_err(|error| reason(&error))?;
    gguf::shape(std::io::BufReader::new(file), name).map_err(|error| error.to_string())
}

fn read_config(path: &Path, name: &str) -> Result<ModelShape, String> {
    let bytes = files::read(path, MAX_CONFIG_BYTES).map_err(|error| reason(&error))?;
    hf_config::shape(&bytes, name).ok_or_else(|| "it is no JSON object".to_owned())
}

/// Without the path, which may be a variable's value.
fn reason(error: &files::FileError) -> String {
    use files::FileError::{IsFolder, LeavesRoot, Missing, TooLarge, Unreadable};
    match error {
        Missing { .. } => "there is no such file".to_owned(),
        IsFolder { .. } => "it is a folder".to_owned(),
        Unreadable { why, .. } => why.clone(),
        TooLarge { limit, .. } => format!("it has more than {limit} bytes"),
        LeavesRoot { .. } => "it leaves the suite's root".to_owned(),
    }
}
