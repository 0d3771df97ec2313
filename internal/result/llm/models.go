package llm

// models are public models, from their published configuration files and the parameter
// counts on their model cards. Bits is the storage of the published weights: 16 (bf16), 8
// (fp8) or 4.25 (MXFP4 with its scales). Latent is kv_lora_rank +
// qk_rope_head_dim, and HeadDim with MLA the mean of 192 for queries and 128 for values.
var models = []Model{
	{Name: "llama3-8b", Title: "Llama 3.1 8B", Layers: 32, Hidden: 4096, Heads: 32, Params: 8.03, Active: 8.03, Bits: 16,
		KVHeads: 8, HeadDim: 128},
	{Name: "llama3-70b", Title: "Llama 3.1 70B", Layers: 80, Hidden: 8192, Heads: 64, Params: 70.6, Active: 70.6,
		Bits: 16, KVHeads: 8, HeadDim: 128},
	{Name: "llama3-405b", Title: "Llama 3.1 405B", Layers: 126, Hidden: 16384, Heads: 128, Params: 405.9, Active: 405.9,
		Bits: 16, KVHeads: 8, HeadDim: 128},
	{Name: "qwen3-8b", Title: "Qwen3 8B", Layers: 36, Hidden: 4096, Heads: 32, Params: 8.19, Active: 8.19, Bits: 16,
		KVHeads: 8, HeadDim: 128},
	{Name: "qwen3-32b", Title: "Qwen3 32B", Layers: 64, Hidden: 5120, Heads: 64, Params: 32.8, Active: 32.8, Bits: 16,
		KVHeads: 8, HeadDim: 128},
	{Name: "qwen3-30b", Title: "Qwen3 30B-A3B", Layers: 48, Hidden: 2048, Heads: 32, Experts: 128, TopK: 8, Params: 30.5,
		Active: 3.3, Bits: 16, KVHeads: 4, HeadDim: 128},
	{Name: "qwen3-235b", Title: "Qwen3 235B-A22B", Layers: 94, Hidden: 4096, Heads: 64, Experts: 128, TopK: 8,
		Params: 235, Active: 22, Bits: 16, KVHeads: 4, HeadDim: 128},
	{Name: "qwen3-coder", Title: "Qwen3-Coder 480B-A35B", Layers: 62, Hidden: 6144, Heads: 96, Experts: 160, TopK: 8,
		Params: 480, Active: 35, Bits: 16, KVHeads: 8, HeadDim: 128},
	{Name: "deepseek-v3", Title: "DeepSeek-V3", Layers: 61, Hidden: 7168, Heads: 128, Experts: 256, TopK: 8, Params: 671,
		Active: 37, Bits: 8, HeadDim: 160, Latent: 576, DenseLayers: 3},
	{Name: "kimi-k2", Title: "Kimi K2", Layers: 61, Hidden: 7168, Heads: 64, Experts: 384, TopK: 8, Params: 1026,
		Active: 32, Bits: 8, HeadDim: 160, Latent: 576, DenseLayers: 1},
	{Name: "gpt-oss-20b", Title: "gpt-oss 20B", Layers: 24, Hidden: 2880, Heads: 64, Experts: 32, TopK: 4, Params: 20.9,
		Active: 3.6, Bits: 4.25, KVHeads: 8, HeadDim: 64, Window: 128, LocalLayers: 12},
	{Name: "gpt-oss-120b", Title: "gpt-oss 120B", Layers: 36, Hidden: 2880, Heads: 64, Experts: 128, TopK: 4,
		Params: 116.8, Active: 5.1, Bits: 4.25, KVHeads: 8, HeadDim: 64, Window: 128, LocalLayers: 18},
	{Name: "mixtral-8x7b", Title: "Mixtral 8x7B", Layers: 32, Hidden: 4096, Heads: 32, Experts: 8, TopK: 2, Params: 46.7,
		Active: 12.9, Bits: 16, KVHeads: 8, HeadDim: 128},
	{Name: "mixtral-8x22b", Title: "Mixtral 8x22B", Layers: 56, Hidden: 6144, Heads: 48, Experts: 8, TopK: 2,
		Params: 140.6, Active: 39.1, Bits: 16, KVHeads: 8, HeadDim: 128},
	{Name: "gpt-neox-20b", Title: "GPT-NeoX 20B (parallel blocks)", Layers: 44, Hidden: 6144, Heads: 64, Params: 20.6,
		Active: 20.6, Bits: 16, Parallel: true, KVHeads: 64, HeadDim: 96},
	{Name: "command-r-plus", Title: "Command R+ (parallel blocks)", Layers: 64, Hidden: 12288, Heads: 96, Params: 104,
		Active: 104, Bits: 16, Parallel: true, KVHeads: 8, HeadDim: 128},
}
