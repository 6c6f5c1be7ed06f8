"""Made-up secrets from the templates of the table, and harmless lines that look a little like them. No test here."""

from __future__ import annotations

import random
import re
import string

_SETS = {
    "d": string.digits,
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "a": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "A": string.ascii_letters + string.digits,
    "L": string.ascii_letters,
    "w": string.ascii_letters + string.digits + "-_",
    "b": string.ascii_letters + string.digits + "+/",
}


def expand(template: str, seed: int = 0) -> str:
    """Return `template` with each `{A36}` replaced by that many made-up characters."""
    rng = random.Random(f"{template}{seed}")

    def made_up(match: re.Match[str]) -> str:
        kind, count = match.groups()
        return "".join(rng.choice(_SETS[kind]) for _ in range(int(count)))

    return re.sub(r"\{([dhHaUALwb])(\d+)\}", made_up, template)


# Lines of healthy and failed runs that hold nothing secret; each has something that a careless rule would take.
BENIGN = r"""
commit 9f2c4e1b7a8d0c3e5f6a7b8c9d0e1f2a3b4c5d6e merged into main
HEAD is now at 9f2c4e1 fix loader
model sha256: 5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5
md5sum of step18000/rank_03.pt: 9e107d9d372bb6826bd81d3542a419d6
run id 7c9e6679-7425-40de-944b-e07fc1f90ae7 on GPU-5f2c3a1e-7d4b-4c8e-9a6f-0b1c2d3e4f5a
node-5:48213:48301 [5] NCCL INFO comm 0x7f3a1c0b2e40 rank 37 nranks 64 cudaDev 5 busId b2000 commId 0x8a6d3f2c1b0e9d74 - Init COMPLETE
node-5:48213:48301 [5] NCCL INFO Channel 00/0 : 37[5] -> 38[6] via P2P/CUMEM/read
node-5:48213:48301 [5] NCCL WARN NET/IB : Got completion from peer 10.0.0.7<43211> with error 12, opcode 0, len 0, vendor err 129
NCCL version 2.21.5+cuda12.4, bootstrap AllGather took 0.003 s, key 0xdeadbeefcafebabe
[rank37]: File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1553, in _wrapped_call_impl
[rank3]:[E504 10:32:12.113] [PG ID 0 PG GUID 0(default_pg) Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4412, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800041 milliseconds
tokens: 128 | tokens/s 18231.4 | consumed tokens: 9437184
| consumed samples: 18272 | consumed tokens: 37421056 | elapsed time per iteration (ms): 812.3 | learning rate: 1.2E-04 |
max_token=512 max_new_tokens=1024 num_tokens: 4096 token_type=segment_a token_type_ids=[0, 0, 1]
pad_token=<|endoftext|> eos_token_id: 151645 bos_token='<s>' unk_token="<unk>" mask_token=[MASK]
Special tokens have been added in the vocabulary, make sure the associated word embeddings are fine-tuned
Token indices sequence length is longer than the specified maximum sequence length (2193 > 2048)
tokenizer_name: meta-llama/Llama-3.1-8B tokenizer_class=PreTrainedTokenizerFast token_dispatcher_type: alltoall
SyntaxError: Unexpected token: 'foo123bar456' at line 3
json.decoder.JSONDecodeError: unexpected token: bar_17_of_list_9
KeyError: 'labels_shifted_17'
key=layers.17.attention.wq.weight shape=torch.Size([4096, 4096]) dtype=torch.bfloat16
Missing key(s) in state_dict: "module.layers.0.attention.query_key_value.weight", "lm_head.weight"
unexpected key: model.layers.31.mlp.down_proj.weight_scale_inv
primary_key=sample_id sort_key=len_bucket_12 partition_key: shard-00017-of-00128
{"key": "train/loss", "value": 2.31, "key_frame": false, "keys": 12}
attention_mask, key_padding_mask=None, need_weights=False, key_cache.shape=(8, 32, 128)
secret: none, password: required, passwd: not set, token=None, api_key=null, credentials: missing
password authentication failed for user
Please enter your password:
WANDB_API_KEY not set; wandb disabled. wandb: Run data is saved locally in wandb/run-20260820_031244-3k5x9q1z
wandb: View run at https://wandb.ai/acme/llm/runs/3k5x9q1z commit 9f2c4e1b7a8d0c3e5f6a7b8c9d0e1f2a3b4c5d6e
wandb: Synced 5 W&B file(s), 0 media file(s), 2 artifact file(s) and 1 other file(s)
HF_HOME=/scratch/hf HF_HUB_OFFLINE=1 hf_transfer=1 HF_TOKEN is unset
Downloading shards: 100%|##########| 30/30 [02:11<00:00,  4.38s/it]
https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/model-00001-of-00004.safetensors?download=true
s3://ckpts/run7/step18000/__0_0.distcp and gs://bucket/path/part-00017-of-00128.tfrecord
http://node-0:29500/ tcp://10.0.0.7:29500 file:///shared/rdzv env:// etcd://node-0:2379/rdzv
git clone git@github.com:acme/train.git && ssh root@node-5 nvidia-smi
attn = (q@k.transpose(-2, -1)) * self.scale; out = attn@v.contiguous(); y = x@self.weight.T
@torch.compile(mode="max-autotune") @hydra.main(config_path="conf") @pytest.mark.slow
pod/trainer-worker-37-x7k2p  1/1  Running  0  3h  10.244.3.17  node-5
Xid (PCI:0000:b2:00): 79, pid=48213, name=python3, GPU has fallen off the bus.
CPU: 17 PID: 48213 Comm: python3 Tainted: P OE 5.15.0-1048-nvidia #48-Ubuntu
RIP: 0033:0x7f8d2c3a1b40 Code: 48 8b 05 a9 1c 2d 00 0f 1f 44 00 00 48 89 e5 41 57
python3[48213]: segfault at 7f3a00000008 ip 00007f8d2c3a1b40 sp 00007ffd1c0b2e40 error 4 in libnccl.so.2[7f8d2c000000+5a1000]
mlx5_0: port 1 link down, GUID 0x506b4b0300f2c3a1, LID 17, LMC 0, SM lid 1
slurmstepd: error: *** STEP 88121.0 ON node-5 CANCELLED AT 2026-08-20T03:12:44 DUE TO TIME LIMIT ***
srun: error: node-5: task 37: Out Of Memory
SLURM_JOB_ID=88121 SLURM_NODELIST=node-[0-7] MASTER_ADDR=node-0 MASTER_PORT=29500 NCCL_SOCKET_IFNAME=ib0
TORCH_NCCL_TRACE_BUFFER_SIZE=20000 NCCL_DEBUG=INFO CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 OMP_NUM_THREADS=8
LD_LIBRARY_PATH=/usr/local/cuda-12.4/lib64:/opt/hpcx/ucx/lib PATH=/opt/conda/bin:/usr/bin
PWD=/home/u/proj OLDPWD=/home/u SSH_AUTH_SOCK=/tmp/ssh-XXXX1234/agent.99 SSH_CONNECTION=10.0.0.1 55122
PAD_TOKEN=abcdefghij1234 NUM_TOKEN=123456789012 IMAGE_TOKEN=image_token_0001
epoch 3 step 18272 loss 2.3182 lr 0.000119 grad_norm 0.812 scale 65536.0 tokens_per_second_per_gpu 2281.5
ACC: 0.8123 AUC 0.9912 SKIP 17 TASK 0x1234567890abcdef1234567890abcdef
triton cache key 5f4dcc3b5aa765d61d8327deb882cf995f4dcc3b5aa765d61d8327deb882cf99
inductor: fxgraph cache hit for key fmz2rsn2jcqxm4h5ru7qkgxqkcr5xk3m2a5z5p7vjx
torch_extensions/py311_cu124/cpu_adam/cpu_adam.so: undefined symbol: _ZN3c106detail14torchCheckFailEPKcS2_jRKSs
docker: sha256:4f1a7c0e9b2d3e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0c1d2e3f4a5b6c7d8e9f: Pull complete
etag: "d41d8cd98f00b204e9800998ecf8427e-17" version-id: 3sL4kqtJlcpXroDTDmJ
uuid=GPU-1b2c3d4e-5f6a-7b8c-9d0e-1f2a3b4c5d6e serial=1562722000123 vbios 96.00.89.00.01
2026-08-20T03:12:44.102345+00:00 node-5 kernel: [1043771.118] Memory cgroup out of memory: Killed process 48213 (python3)
base64 shape hash qZk1NkcGgWq6PiVxeFDCbJzQ2J0= differs; retry 3
loss_mask=tensor([1, 1, 0], device='cuda:5') secret_santa_dataset/v1.0-mini/samples
ssh-rsa: no matching host key type found. Authorization required, but no authorization protocol specified
per-token latency 0.0123456 s, first-token 123456789 us, --max-tokens 4096 --tokenizer-mode auto1234567
cookie: none, session: closed, login failed: password wrong
"auth": "none", "token": 128, "password": null, "secret_key": ""
""".strip().splitlines()
