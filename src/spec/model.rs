//! What a deployment runs on and what its model is made of, as far as the bounds of its speed need it.

use serde::{Deserialize, Serialize};

/// Of all the deployment's devices together, as their maker states it or as it was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hardware {
    /// Memory bandwidth in 10⁹ bytes per second.
    pub bandwidth_gb_s: Option<f64>,
    /// Arithmetic in 10¹² operations per second, at the precision that the model is computed in.
    pub tflops: Option<f64>,
    /// Memory for weights and KV cache, in 10⁹ bytes.
    pub memory_gb: Option<f64>,
}

/// Where a model's shape comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShapeSource {
    Stated,
    /// The header of a GGUF file of this name.
    Gguf(String),
    /// A `config.json` of this name.
    Config(String),
}

/// Sizes of a model that bound its speed; absent what is not told. Resolved when the suite is loaded, so that a plan
/// holds numbers and no path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelShape {
    pub source: ShapeSource,
    /// All weights, by number.
    pub params: Option<f64>,
    /// Weights that one token is multiplied with: fewer than `params` in a mixture of experts, and without an embedding
    /// table of which a token needs one row.
    pub active_params: Option<f64>,
    /// All weights, in bytes of memory.
    pub weight_bytes: Option<f64>,
    /// Bytes of `active_params`: what must be read for each decoding step.
    pub read_bytes: Option<f64>,
    /// Numbers that the KV cache holds for each token, over all layers, keys and values.
    pub kv_elements: Option<f64>,
    /// Bytes of one such number: 2 for 16 bits, 1 for 8 bits, 0.5625 for llama.cpp's `q4_0`.
    pub kv_bytes: f64,
}

impl ModelShape {
    /// A shape of which nothing is known, with a KV cache in 16 bits.
    pub fn unknown(source: ShapeSource) -> ModelShape {
        ModelShape {
            source,
            params: None,
            active_params: None,
            weight_bytes: None,
            read_bytes: None,
            kv_elements: None,
            kv_bytes: 2.0,
        }
    }

    pub fn kv_bytes_per_token(&self) -> Option<f64> {
        Some(self.kv_elements? * self.kv_bytes)
    }
}

/// Older plans hold a name or anything at all where a section stands now: that reads as nothing stated.
pub(super) fn section_or_none<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let value = Option::<serde_json::Value>::deserialize(deserializer)?;
    Ok(value.and_then(|value| serde_json::from_value(value).ok()))
}
