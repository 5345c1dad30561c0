//! A Hugging Face `config.json`: sizes of a decoder with gated feed-forward blocks, as its layers are laid out in
//! Llama, Mistral, Qwen, Mixtral and their like.

use serde_json::Value;

use super::model::{ModelShape, ShapeSource};

/// Sizes above this are none.
const MAX_SIZE: f64 = 1e9;

/// Reads a model's shape. Sizes that the file does not tell stay absent; `None` where it is no JSON object.
///
/// Parameters = layers × (queries, keys, values, output, gated feed-forward of each expert) + the output matrix, and the
/// embedding where it is a matrix of its own. Norms, biases and routers (under 1 %) are left out.
pub fn shape(bytes: &[u8], name: &str) -> Option<ModelShape> {
    let whole: Value = serde_json::from_slice(bytes).ok()?;
    whole.as_object()?;
    // Models that also see keep the language model's sizes one level below.
    let config = whole.get("text_config").filter(|inner| inner.is_object()).unwrap_or(&whole);
    let mut shape = ModelShape::unknown(ShapeSource::Config(name.to_owned()));
    let sizes = Sizes { config };
    shape.kv_elements = sizes.kv_elements();
    if let Some((all, active)) = sizes.params() {
        shape.params = Some(all);
        shape.active_params = Some(active);
    }
    let bytes_per_weight = bits_per_weight(config).or_else(|| bits_per_weight(&whole)).map(|bits| bits / 8.0);
    shape.weight_bytes = shape.params.zip(bytes_per_weight).map(|(params, bytes)| params * bytes);
    shape.read_bytes = shape.active_params.zip(bytes_per_weight).map(|(params, bytes)| params * bytes);
    Some(shape)
}

struct Sizes<'a> {
    config: &'a Value,
}

impl Sizes<'_> {
    fn size(&self, key: &str) -> Option<f64> {
        self.config.get(key)?.as_f64().filter(|size| (1.0..=MAX_SIZE).contains(size))
    }

    fn heads(&self) -> Option<f64> {
        self.size("num_attention_heads")
    }

    fn kv_heads(&self) -> Option<f64> {
        self.size("num_key_value_heads").or_else(|| self.heads())
    }

    fn head_dim(&self) -> Option<f64> {
        self.size("head_dim").or_else(|| Some(self.size("hidden_size")? / self.heads()?))
    }

    fn kv_elements(&self) -> Option<f64> {
        Some(2.0 * self.size("num_hidden_layers")? * self.kv_heads()? * self.head_dim()?)
    }

    /// All parameters, and those that one token is multiplied with.
    fn params(&self) -> Option<(f64, f64)> {
        let hidden = self.size("hidden_size")?;
        let attention = 2.0 * hidden * self.head_dim()? * (self.heads()? + self.kv_heads()?);
        let experts = ["num_local_experts", "num_experts", "n_routed_experts"].into_iter().find_map(|k| self.size(k));
        let (all_blocks, active_blocks) = match experts {
            None => (1.0, 1.0),
            Some(experts) => (experts, self.size("num_experts_per_tok")?),
        };
        let width = match experts {
            Some(_) => self.size("moe_intermediate_size").or_else(|| self.size("intermediate_size")),
            None => self.size("intermediate_size"),
        };
        let block = 3.0 * hidden * width?;
        let layers = self.size("num_hidden_layers")?;
        let matrix = self.size("vocab_size")? * hidden;
        let tied = self.config.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false);
        let embedding = if tied { 0.0 } else { matrix };
        let all = layers * (attention + all_blocks * block) + matrix + embedding;
        Some((all, layers * (attention + active_blocks * block) + matrix))
    }
}

/// Bits of a weight: what a quantization says, else what the numbers' type says.
fn bits_per_weight(config: &Value) -> Option<f64> {
    if let Some(quantization) = config.get("quantization_config") {
        let method = quantization.get("quant_method").and_then(Value::as_str).unwrap_or_default();
        let flag = |key: &str| quantization.get(key).and_then(Value::as_bool) == Some(true);
        let stated = quantization.get("bits").and_then(Value::as_f64).filter(|bits| (1.0..=32.0).contains(bits));
        let by_method = if method == "fp8" || flag("load_in_8bit") {
            Some(8.0)
        } else if method == "mxfp4" || flag("load_in_4bit") {
            Some(4.0)
        } else {
            None
        };
        // A quantization that does not say its bits leaves them unknown: the type is that of the unpacked numbers.
        return stated.or(by_method);
    }
    match config.get("torch_dtype").or_else(|| config.get("dtype"))?.as_str()? {
        "float32" => Some(32.0),
        "float16" | "bfloat16" => Some(16.0),
        name if name.starts_with("float8") => Some(8.0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(config: &Value) -> ModelShape {
        shape(config.to_string().as_bytes(), "config.json").unwrap()
    }

    fn small() -> Value {
        json!({"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
            "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": true, "torch_dtype": "bfloat16"})
    }

    #[test]
    fn a_small_dense_model_has_the_parameters_that_its_name_says() {
        let shape = of(&small());
        // SmolLM2-135M has 134 515 008 weights; 61 norms of 576 are left out here.
        assert_eq!(shape.params, Some(134_515_008.0 - 61.0 * 576.0));
        assert_eq!(shape.active_params, shape.params);
        assert_eq!(shape.read_bytes, shape.params.map(|p| p * 2.0));
        assert_eq!(shape.kv_bytes_per_token(), Some(2.0 * 30.0 * 3.0 * 64.0 * 2.0));
    }

    #[test]
    fn experts_and_quantization_are_told_apart() {
        let mixture = of(&json!({"text_config": {"hidden_size": 4096, "intermediate_size": 14336,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
            "num_local_experts": 8, "num_experts_per_tok": 2}, "quantization_config": {"bits": 4}}));
        let (all, active) = (mixture.params.unwrap(), mixture.active_params.unwrap());
        assert!((46.6e9..46.8e9).contains(&all), "Mixtral 8x7B has 46.7 billion: {all}");
        assert!((12.7e9..13.0e9).contains(&active), "12.9 billion of them for a token, less one embedding: {active}");
        assert_eq!(mixture.weight_bytes, Some(all / 2.0));
        let mut unsaid = small();
        unsaid["quantization_config"] = json!({"quant_method": "some-new-method"});
        assert_eq!(of(&unsaid).weight_bytes, None, "16 bits would be a guess");
    }

    #[test]
    fn what_is_not_told_is_absent() {
        assert!(shape(b"[1]", "c").is_none() && shape(b"{", "c").is_none());
        let empty = of(&json!({}));
        assert_eq!((empty.params, empty.kv_elements, empty.read_bytes), (None, None, None));
        assert_eq!(of(&json!({"hidden_size": -1, "num_hidden_layers": 1e300})).params, None);
    }
}
