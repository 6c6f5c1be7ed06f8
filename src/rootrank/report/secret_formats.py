"""The published forms of secrets: one row each, specific before general.

Belongs here: what a secret looks like, who says so, and an example of it and of its nearest
harmless look-alike. Must not be here: code that applies the rows (redact.py).

Why a table of our own: entropy-based scanners flag hashes, shapes and addresses, which is most of a
training log, and the well-kept rule sets are written for source files and other languages' regex
engines. Their public forms were used to check this table for gaps.

Rules for a row. `hints`: lower-case substrings (␣ is a blank), one of which every match contains; a
line without any is never searched. `pattern`: no nested or adjacent unbounded repeats, and a left
boundary or bounded repeats, so that time stays linear in the length of a line; if it has groups,
exactly one takes part in a match and only that one is replaced. `hit` and `near` are templates:
`{A36}` stands for 36 made-up characters (d digits, h hex, H upper-case hex, a lower-case
alphanumeric, U upper-case alphanumeric, A alphanumeric, L letters, w URL-safe base64, b base64), so
that no file of ours holds anything that looks like a secret.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One form of secret."""

    id: str
    vendor: str
    form: str  # what the vendor's documentation says of it, in our words
    hints: tuple[str, ...]
    pattern: str
    hit: str
    near: str


_L = r"(?<![A-Za-z0-9])"  # nothing alphanumeric before
_R = r"(?![A-Za-z0-9])"  # nor after
_RW = r"(?![A-Za-z0-9_-])"
_EQ = r"[\\\"'`]{0,2}\s{0,4}(?:=>|:=|[=:])\s{0,4}[\\\"'`]{0,2}"  # key = value in env, CLI, JSON, YAML, reprs
# A value that looks made by a machine: it has a digit and a letter, or many letters of both cases,
# and it is not words joined by signs, as names of files, columns and runs are.
_RANDOM = (
    r"(?![a-z]{2,20}(?:[_.-][a-z]{0,20}\d{0,6}){1,8}(?![A-Za-z0-9+/=~!@#$%^*]))"
    r"(?=(?=[A-Za-z_.+/=~-]{0,120}\d)(?=[0-9_.+/=~-]{0,120}[A-Za-z])"
    r"|(?=[A-Z]{0,22}[a-z])(?=[a-z]{0,22}[A-Z])[A-Za-z]{23})"
)


def _row(id: str, vendor: str, form: str, hints: str, pattern: str, hit: str, near: str) -> Format:
    return Format(
        id=id,
        vendor=vendor,
        form=form,
        hints=tuple(h.replace("␣", " ") for h in hints.split()),
        pattern=pattern,
        hit=hit,
        near=near,
    )


_CLOUD = (
    _row(
        "aws-access-key-id",
        "Amazon Web Services",
        "IAM identifiers: AKIA for a long-term and ASIA for a temporary access key, 20 capitals and digits in all.",
        "akia asia abia acca",
        _L + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}" + _R,
        "AWS_ACCESS_KEY_ID=AKIA{L0}QWERTYUIOPASDFGH",
        "ASIAN_LANGUAGES AKIATOOSHORT",
    ),
    _row(
        "aws-secret-key",
        "Amazon Web Services",
        "The secret access key is 40 characters of base64, shown beside its id in credentials files and environment.",
        "secret_access_key secretaccesskey aws_secret secret-access-key",
        r"(?i)(?:aws_?secret|secret[_-]?access[_-]?key|secretkey)[a-z_]{0,20}"
        + _EQ
        + r"([A-Za-z0-9/+=]{40})(?![A-Za-z0-9/+=])",
        'aws_secret_access_key = "{A40}"',
        "aws_secret_access_key = None",
    ),
    _row(
        "aws-session-token",
        "Amazon Web Services",
        "Temporary credentials carry a session token of a few hundred characters of base64.",
        "session_token sessiontoken security-token security_token",
        r"(?i)(?:session_?token|security[_-]?token)" + _EQ + r"([A-Za-z0-9/+=%]{60,2000})",
        "AWS_SESSION_TOKEN={b120}",
        "AWS_SESSION_TOKEN is not set",
    ),
    _row(
        "aws-bedrock-key",
        "Amazon Web Services",
        "Bedrock API keys: long-term ones begin with ABSK, short-term ones with bedrock-api-key-.",
        "absk bedrock-api-key-",
        _L + r"(?:ABSK[A-Za-z0-9+/]{100,280}={0,2}|bedrock-api-key-[A-Za-z0-9+/=_-]{20,2000})",
        "AWS_BEARER_TOKEN_BEDROCK=ABSK{A120}",
        "ABSK: absolute skew 12",
    ),
    _row(
        "azure-storage-key",
        "Microsoft Azure",
        "Connection strings end in AccountKey= or SharedAccessKey= and 44 or 88 characters of base64.",
        "accountkey sharedaccesskey account_key",
        r"(?i)(?:accountkey|sharedaccesskey|account_key)" + _EQ + r"([A-Za-z0-9+/]{43,86}={1,2})",
        "DefaultEndpointsProtocol=https;AccountName=ckpts;AccountKey={b86}==;EndpointSuffix=core.windows.net",
        "AccountName=ckpts;AccountKey=;",
    ),
    _row(
        "azure-sas",
        "Microsoft Azure",
        "A shared access signature is the sig= parameter of a URL that also has sv=, se= or sp=.",
        "sig=",
        r"(?i)[?&;]sig=([A-Za-z0-9%+/_-]{30,120}={0,2})",
        "https://ckpts.blob.core.windows.net/c/step1?sv=2022-11-02&se=2026-01-01&sig={A43}%3D",
        "https://host/plot?sig=0.95&n=3",
    ),
    _row(
        "azure-client-secret",
        "Microsoft Azure",
        "Entra ID application secrets: 40 characters with a digit and Q~ at the fourth and fifth place.",
        "q~",
        r"(?<![A-Za-z0-9_~.])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~.-])",
        "client secret is abc8Q~{A34}",
        "8Q~short",
    ),
    _row(
        "google-api-key",
        "Google Cloud",
        "API keys begin with AIza and have 39 characters.",
        "aiza",
        _L + r"AIza[A-Za-z0-9_-]{35}" + _RW,
        "key=AIza{A35}",
        "AIzaTooShort",
    ),
    _row(
        "google-oauth-token",
        "Google Cloud",
        "OAuth 2.0 access tokens begin with ya29., refresh tokens with 1//0.",
        "ya29. 1//0",
        _L + r"(?:ya29\.[A-Za-z0-9_-]{20,1000}|1//0[A-Za-z0-9_-]{30,200})",
        "access token ya29.{w120} accepted",
        "http://host1//0/status",
    ),
    _row(
        "google-client-secret",
        "Google Cloud",
        "OAuth client secrets begin with GOCSPX-.",
        "gocspx-",
        _L + r"GOCSPX-[A-Za-z0-9_-]{20,60}",
        '"client_secret":"GOCSPX-{A28}"',
        "GOCSPX-",
    ),
    _row(
        "google-hmac-key",
        "Google Cloud",
        "Cloud Storage HMAC access ids begin with GOOG1E and have 61 characters.",
        "goog1e",
        _L + r"GOOG1E[A-Z0-9]{50,60}" + _R,
        "GOOG1E{U55}",
        "GOOG1E",
    ),
    _row(
        "alibaba-access-key",
        "Alibaba Cloud",
        "AccessKey ids begin with LTAI; the secret has 30 alphanumeric characters.",
        "ltai accesskeysecret access_key_secret",
        _L
        + r"(?:LTAI[A-Za-z0-9]{12,22}"
        + _R
        + r"|(?i:access_?key_?secret)"
        + _EQ
        + r"[A-Za-z0-9]{30})"
        + _R,
        "ALIBABA_CLOUD_ACCESS_KEY_ID=LTAI{A20}",
        "LTAI",
    ),
    _row(
        "tencent-secret-id",
        "Tencent Cloud",
        "SecretId values begin with AKID and have 36 characters.",
        "akid",
        _L + r"AKID[A-Za-z0-9]{32}" + _R,
        "TENCENTCLOUD_SECRET_ID=AKID{A32}",
        "AKID",
    ),
    _row(
        "volcengine-access-key",
        "Volcengine",
        "Access key ids begin with AKLT.",
        "aklt",
        _L + r"AKLT[A-Za-z0-9_-]{30,80}",
        "VOLC_ACCESSKEY=AKLT{A43}",
        "AKLT",
    ),
    _row(
        "yandex-key",
        "Yandex Cloud",
        "API keys begin with AQVN, static keys with YC, IAM tokens with t1.",
        "aqvn t1. yca ycm",
        _L
        + r"(?:AQVN[A-Za-z0-9_-]{35,38}|t1\.[A-Za-z0-9_-]{20,400}\.[A-Za-z0-9_-]{80,90}={0,2}|YC[AM][A-Za-z0-9_-]{37})"
        + _RW,
        "YC_API_KEY AQVN{A36}",
        "t1.weight AQVN",
    ),
    _row(
        "ibm-cloud-key",
        "IBM Cloud",
        "API keys have 44 URL-safe characters and travel as apikey= or IBMCLOUD_API_KEY.",
        "ibmcloud ibm_cloud bluemix",
        r"(?i)(?:ibm_?cloud|bluemix)[a-z_]{0,20}" + _EQ + r"([A-Za-z0-9_-]{44})" + _RW,
        "IBMCLOUD_API_KEY={A44}",
        "IBMCLOUD_API_KEY=unset",
    ),
    _row(
        "digitalocean-token",
        "DigitalOcean",
        "Tokens begin with dop_v1_, doo_v1_ or dor_v1_, then 64 hex digits.",
        "dop_v1_ doo_v1_ dor_v1_",
        _L + r"do[opr]_v1_[0-9a-f]{64}" + _R,
        "DIGITALOCEAN_TOKEN dop_v1_{h64}",
        "dop_v1_beta",
    ),
    _row(
        "linode-or-vultr-key",
        "Linode, Vultr, Hetzner, OVH",
        "API tokens without a prefix, known by the name of the variable that carries them.",
        "linode_ vultr_ hcloud_ ovh_ scw_ exoscale_ oci_",
        r"(?i)(?:linode|vultr|hcloud|ovh|scw|exoscale|oci)_[a-z_]{0,30}(?:token|key|secret)"
        + _EQ
        + r"([A-Za-z0-9_-]{24,128})",
        "HCLOUD_TOKEN={A64}",
        "oci_image_key: sha",
    ),
)

_ML = (
    _row(
        "hugging-face-token",
        "Hugging Face",
        "User access tokens begin with hf_ and organisation tokens with api_org_; 34 letters and digits follow.",
        "hf_ api_org_",
        _L + r"(?:hf|api_org)_[A-Za-z0-9]{34,40}" + r"(?![A-Za-z0-9_])",
        "HF_TOKEN=hf_{L34}",
        "hf_AutoModelForSequenceClassificationWithPooling and hf_transfer",
    ),
    _row(
        "wandb-key",
        "Weights & Biases",
        "Keys begin with wandb_v1_ and have 86 characters; older ones are 40 hex digits, known by what stands before.",
        "wandb",
        r"wandb_v1_[A-Za-z0-9_]{60,100}",
        "wandb: logged in with wandb_v1_{A77}",
        "wandb_v1_metrics.json",
    ),
    _row(
        "wandb-key-legacy",
        "Weights & Biases",
        "The older API key is 40 hex digits; it stands after WANDB_API_KEY, `wandb login` or in netrc.",
        "wandb",
        r"(?i)(?:wandb_api_key|wandb[. ](?:ai )?login|api\.wandb\.ai\b|wandb[^\n]{0,40}?api[ _]?key)"
        r"[^\n]{0,40}?(?<![0-9a-f])([0-9a-f]{40})(?![0-9a-f])",
        "export WANDB_API_KEY={h40}",
        "wandb: git commit {h40}",
    ),
    _row(
        "openai-key",
        "OpenAI",
        "Project, service-account and admin keys begin with sk-proj-, sk-svcacct-, sk-admin-; older ones with sk-.",
        "sk-",
        r"(?<![A-Za-z0-9_.-])sk-(?:(?:proj|svcacct|admin|None|or-v1)-[A-Za-z0-9_-]{30,220}|[A-Za-z0-9]{32,64})"
        + _RW,
        "OPENAI_API_KEY sk-proj-{w120}",
        "sk-learn and task-0123456789 sk-short",
    ),
    _row(
        "anthropic-key",
        "Anthropic",
        "API keys begin with sk-ant-api03-, admin keys with sk-ant-admin01-.",
        "sk-ant-",
        r"sk-ant-[A-Za-z0-9]{3,10}-[A-Za-z0-9_-]{30,140}",
        "x-api-key sk-ant-api03-{w93}AA",
        "sk-ant-api03-",
    ),
    _row(
        "langfuse-key",
        "Langfuse",
        "Secret keys are sk-lf- and a UUID.",
        "sk-lf-",
        r"sk-lf-[0-9a-f]{8}-[0-9a-f-]{27}",
        "sk-lf-{h8}-{h4}-{h4}-{h4}-{h12}",
        "sk-lf-x",
    ),
    _row(
        "nvidia-api-key",
        "NVIDIA",
        "Keys for hosted services and NGC personal keys begin with nvapi-.",
        "nvapi-",
        _L + r"nvapi-[A-Za-z0-9_-]{40,90}",
        "NGC_API_KEY=nvapi-{w64}",
        "nvapi-version",
    ),
    _row(
        "ngc-key-legacy",
        "NVIDIA",
        "Older NGC keys are 84 characters of base64 and travel as NGC_API_KEY, NGC_CLI_API_KEY or the docker password.",
        "ngc_ oauthtoken",
        r"(?i)(?:ngc_(?:cli_)?api_key|\$oauthtoken)[^\n]{0,20}?[\s=:\"']([A-Za-z0-9+/]{80,90}={0,2})(?![A-Za-z0-9+/=])",
        "NGC_CLI_API_KEY: {A84}",
        "NGC_CLI_API_KEY is not set",
    ),
    _row(
        "replicate-token",
        "Replicate",
        "API tokens begin with r8_ and have 40 characters.",
        "r8_",
        _L + r"r8_[A-Za-z0-9]{37}" + _R,
        "REPLICATE r8_{A37}",
        "r8_unorm",
    ),
    _row(
        "groq-key",
        "Groq",
        "API keys begin with gsk_ and have 56 characters.",
        "gsk_",
        _L + r"gsk_[A-Za-z0-9]{48,56}" + _R,
        "gsk_{A52}",
        "gsk_layer_0",
    ),
    _row(
        "xai-key",
        "xAI",
        "API keys begin with xai-; 80 letters and digits follow.",
        "xai-",
        _L + r"xai-[A-Za-z0-9]{70,90}" + _R,
        "xai-{A80}",
        "xai-explain",
    ),
    _row(
        "perplexity-key",
        "Perplexity",
        "API keys begin with pplx-.",
        "pplx-",
        _L + r"pplx-[A-Za-z0-9]{40,60}" + _R,
        "pplx-{A48}",
        "pplx-7b-online",
    ),
    _row(
        "fireworks-key",
        "Fireworks AI",
        "API keys begin with fw_; 22 or more characters follow.",
        "fw_",
        _L + r"fw_(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{22,48}" + r"(?![A-Za-z0-9_])",
        "FIREWORKS fw_3Z{A22}",
        "fw_bw_overlap fw_forwardpassofthefirstlayer",
    ),
    _row(
        "ai-provider-key",
        "Cohere, Mistral, Together, AI21, Voyage, DeepInfra",
        "API keys without a prefix, known by the name of the variable that carries them.",
        "cohere co_api mistral together ai21 voyage deepinfra",
        r"(?i)(?:cohere|co|mistral|together(?:ai)?|ai21|voyage|deepinfra)_(?:api_)?(?:key|token)"
        + _EQ
        + r"([A-Za-z0-9_-]{20,128})",
        "MISTRAL_API_KEY={A32}",
        "mistral_key_value_heads: 8",
    ),
    _row(
        "anyscale-key",
        "Anyscale",
        "Tokens begin with esecret_ or aph0_.",
        "esecret_ aph0_",
        _L + r"(?:esecret_|aph0_)[A-Za-z0-9]{20,80}" + _R,
        "ANYSCALE esecret_{A26}",
        "esecret_x",
    ),
    _row(
        "modal-token",
        "Modal",
        "Token ids begin with ak-, token secrets with as-; 22 characters follow.",
        "modal ak- as-",
        r"(?<![A-Za-z0-9_.-])a[ks]-(?=[A-Za-z]{0,21}\d)[A-Za-z0-9]{22}" + _RW,
        "token_secret = as-1{A21}",
        "as-is ak-short",
    ),
    _row(
        "runpod-key",
        "RunPod",
        "API keys begin with rpa_.",
        "rpa_",
        _L + r"rpa_[A-Za-z0-9]{36,60}" + _R,
        "RUNPOD rpa_{U43}",
        "rpa_mask",
    ),
    _row(
        "lightning-key",
        "Lightning AI, Determined, Domino, Paperspace, Vast.ai, Lambda",
        "Keys without a prefix, known by the name of the variable that carries them.",
        "lightning_ det_ domino_ paperspace_ vast_ lambda_",
        r"(?i)(?:lightning|det|domino|paperspace|vast|lambda)_(?:user_)?(?:cloud_)?(?:api_)?(?:key|token|pass)"
        + _EQ
        + r"([A-Za-z0-9_.-]{16,256})",
        "LIGHTNING_API_KEY={h36}",
        "det_token=none lambda_key: 0.1",
    ),
    _row(
        "comet-key",
        "Comet",
        "API keys are 25 alphanumeric characters, set as COMET_API_KEY or api_key in .comet.config.",
        "comet",
        r"(?i)comet[a-z_. ]{0,20}(?:api[_ ]?key)" + _EQ + r"([A-Za-z0-9]{20,40})" + _R,
        "COMET_API_KEY={A25}",
        "comet_api_key is missing",
    ),
    _row(
        "neptune-token",
        "Neptune",
        "API tokens are base64 of a JSON object that begins with api_address.",
        "eyjhcglfywrkcmvzcyi6",
        r"eyJhcGlfYWRkcmVzcyI6[A-Za-z0-9+/=_-]{20,600}",
        "NEPTUNE eyJhcGlfYWRkcmVzcyI6{b120}",
        "eyJhcGlfYWRkcmVzcyI6",
    ),
    _row(
        "clearml-key",
        "ClearML",
        "credentials in clearml.conf: an access_key of 20 to 32 capitals and digits, a secret_key of 40 to 64.",
        "clearml trains_",
        r"(?i)(?:clearml|trains)_(?:api_)?(?:access|secret)_key" + _EQ + r"([A-Za-z0-9_-]{16,90})",
        "CLEARML_API_SECRET_KEY={A50}",
        "clearml_secret_key = None",
    ),
    _row(
        "kaggle-key",
        "Kaggle",
        "kaggle.json holds a user name and a key of 32 hex digits; newer tokens begin with KGAT_.",
        "kaggle kgat_ username",
        r"(?:KGAT_[A-Za-z0-9_]{20,60}|(?i:kaggle_key)" + _EQ + r"[0-9a-f]{32}|"
        r"\"username\":\s{0,2}\"[^\"\s]{1,64}\",\s{0,2}\"key\":\s{0,2}\"[0-9a-f]{32})(?![0-9a-f])",
        '{"username":"ann","key":"{h32}"}',
        '"username": "ann", "key": "labels"',
    ),
    _row(
        "roboflow-labelbox-key",
        "Roboflow, Labelbox, Scale, Snorkel",
        "Keys without a prefix, known by the name of the variable that carries them.",
        "roboflow labelbox scale_api snorkel",
        r"(?i)(?:roboflow|labelbox|scale|snorkel)_(?:api_)?(?:key|token)"
        + _EQ
        + r"([A-Za-z0-9_.-]{16,400})",
        "ROBOFLOW_API_KEY={A20}",
        "scale_key=0.125",
    ),
    _row(
        "langsmith-key",
        "LangSmith",
        "Keys begin with lsv2_pt_ or lsv2_sk_.",
        "lsv2_",
        _L + r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{8,16}" + _R,
        "lsv2_pt_{h32}_{h10}",
        "lsv2_pt_x",
    ),
    _row(
        "pinecone-key",
        "Pinecone",
        "API keys begin with pcsk_.",
        "pcsk_",
        _L + r"pcsk_[A-Za-z0-9_]{40,90}",
        "pcsk_{A70}",
        "pcsk_dim",
    ),
    _row(
        "databricks-token",
        "Databricks",
        "Personal access tokens begin with dapi, then 32 hex digits.",
        "dapi dkea dose",
        _L + r"(?:dapi|dkea|dose)[0-9a-f]{32}(?:-\d)?" + _R,
        "DATABRICKS_TOKEN dapi{h32}",
        "dapi0123",
    ),
    _row(
        "prefect-key",
        "Prefect",
        "API keys begin with pnu_ (user) or pnb_ (service account).",
        "pnu_ pnb_",
        _L + r"pn[ub]_[A-Za-z0-9]{36}" + _R,
        "PREFECT pnu_{A36}",
        "pnu_x",
    ),
)

_FORGES = (
    _row(
        "github-token",
        "GitHub",
        "Tokens begin with ghp_, gho_, ghu_, ghs_ or ghr_ by kind; at least 36 characters follow.",
        "ghp_ gho_ ghu_ ghs_ ghr_",
        _L + r"gh[pousr]_[A-Za-z0-9]{36,255}" + _R,
        "https://ghp_{A36}@host",
        "ghs_size ghp_{A12}",
    ),
    _row(
        "github-fine-grained-token",
        "GitHub",
        "Fine-grained personal access tokens begin with github_pat_; 82 characters follow.",
        "github_pat_",
        r"github_pat_[A-Za-z0-9_]{60,100}",
        "github_pat_{A22}_{A59}",
        "github_pat_expired",
    ),
    _row(
        "gitlab-token",
        "GitLab",
        "Token overview: each kind has its prefix, glpat- for personal ones, gldt-, glrt-, glcbt-, glptt-, glft- and more.",
        "glpat- gldt- glrt- glcbt- glptt- glft- glagent- glsoat- gloas- glimt- glffct- gr1348941 _gitlab_session",
        _L
        + r"(?:gl(?:pat|dt|rt|cbt|ptt|ft|agent|soat|oas|imt|ffct)-[A-Za-z0-9_.=-]{20,320}|GR1348941[A-Za-z0-9_-]{20}|(?<=_gitlab_session=)[0-9a-z]{32})",
        "git clone with glpat-{A20}",
        "glpat-expired",
    ),
    _row(
        "bitbucket-token",
        "Atlassian",
        "API tokens begin with ATATT3, Bitbucket app passwords with ATBB, access tokens with ATCTT3.",
        "atatt3 atbb atctt3",
        _L + r"(?:ATATT3|ATCTT3|ATBB)[A-Za-z0-9_=-]{28,400}",
        "ATATT3{A180}",
        "ATBB",
    ),
    _row(
        "npm-token",
        "npm",
        "Access tokens begin with npm_; 36 characters follow.",
        "npm_",
        _L + r"npm_[A-Za-z0-9]{36}" + _R,
        "//registry.npmjs.org/:_authToken=npm_{A36}",
        "npm_config_prefix",
    ),
    _row(
        "pypi-token",
        "Python Package Index",
        "API tokens begin with pypi-; they are macaroons in base64, so long and starting AgE.",
        "pypi-age",
        _L + r"pypi-AgE[A-Za-z0-9_-]{50,1000}",
        "TWINE pypi-AgEIcHlwaS5vcmc{A60}",
        "pypi-attestations",
    ),
    _row(
        "rubygems-token",
        "RubyGems",
        "API keys begin with rubygems_, then 48 hex digits.",
        "rubygems_",
        _L + r"rubygems_[0-9a-f]{48}" + _R,
        "rubygems_{h48}",
        "rubygems_version",
    ),
    _row(
        "docker-token",
        "Docker Hub",
        "Access tokens begin with dckr_pat_ (personal) or dckr_oat_ (organisation).",
        "dckr_pat_ dckr_oat_",
        _L + r"dckr_[po]at_[A-Za-z0-9_-]{20,60}",
        "docker login -p dckr_pat_{A27}",
        "dckr_pat_",
    ),
    _row(
        "docker-auth",
        "Docker, Kubernetes",
        'config.json and image pull secrets hold "auth": base64 of user and password.',
        "auth",
        r"\"(?:auth|identitytoken|registrytoken)\":\s{0,4}\"([A-Za-z0-9+/=_.-]{12,4000})\"",
        '{"auths":{"nvcr.io":{"auth":"{b60}"}}}',
        '"auth": "none"',
    ),
    _row(
        "artifactory-token",
        "JFrog Artifactory",
        "API keys begin with AKCp, reference tokens with cmVmd.",
        "akcp cmvmd",
        _L + r"(?:AKCp[A-Za-z0-9]{60,80}|cmVmd[A-Za-z0-9]{59})" + _R,
        "AKCp{A69}",
        "AKCp",
    ),
    _row(
        "circleci-token",
        "CircleCI",
        "Personal and project tokens begin with CCIPAT_ or CCIPRJ_.",
        "ccipat_ cciprj_",
        _L + r"CCI(?:PAT|PRJ)_[A-Za-z0-9]{20,30}_[0-9a-f]{40}" + _R,
        "CCIPAT_{A22}_{h40}",
        "CCIPAT_x",
    ),
    _row(
        "buildkite-token",
        "Buildkite",
        "API tokens begin with bkua_, then 40 hex digits.",
        "bkua_",
        _L + r"bkua_[0-9a-f]{40}" + _R,
        "bkua_{h40}",
        "bkua_x",
    ),
    _row(
        "sonar-token",
        "SonarQube",
        "Tokens begin with squ_, sqp_ or sqa_, then 40 hex digits.",
        "squ_ sqp_ sqa_",
        _L + r"sq[upa]_[0-9a-f]{40}" + _R,
        "squ_{h40}",
        "squ_relu",
    ),
)

_SERVICES = (
    _row(
        "slack-token",
        "Slack",
        "Token types: xoxb- bot, xoxp- user, xoxe- rotating, xapp- app level, xoxc-/xoxs- session.",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp-",
        _L + r"(?:xox[abcdeoprs]|xapp)[-.][A-Za-z0-9.%-]{10,400}",
        "xoxb-{d12}-{d12}-{A24}",
        "xoxo- xoxb-1",
    ),
    _row(
        "slack-webhook",
        "Slack",
        "Incoming webhooks are URLs at hooks.slack.com; whoever has one can post.",
        "hooks.slack.com",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+-]{20,200})",
        "https://hooks.slack.com/services/T{U8}/B{U8}/{A24}",
        "https://hooks.slack.com/services/",
    ),
    _row(
        "discord-webhook",
        "Discord",
        "Webhook URLs hold an id and a token of 68 characters.",
        "/api/webhooks/",
        r"/api/webhooks/\d{15,21}/([A-Za-z0-9_-]{40,100})",
        "https://discord.com/api/webhooks/{d18}/{w68}",
        "https://discord.com/api/webhooks/123/x",
    ),
    _row(
        "discord-bot-token",
        "Discord",
        "Bot tokens are three base64 parts; the first encodes the bot's id and begins with M, N or O.",
        "discord bot",
        _L + r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}" + _RW,
        "discord token M{A25}.{A6}.{A38}",
        "discord Model.forward.module",
    ),
    _row(
        "telegram-bot-token",
        "Telegram",
        "Bot tokens are the bot's number, a colon and 35 characters that begin with A.",
        ":aa api.telegram telegram",
        r"(?<![0-9A-Za-z:])(?:bot)?\d{8,10}:A[A-Za-z0-9_-]{34}" + _RW,
        "https://api.telegram.org/bot{d9}:A{A34}/sendMessage",
        "123456789:ABC",
    ),
    _row(
        "teams-webhook",
        "Microsoft Teams",
        "Incoming webhooks are URLs at webhook.office.com or a Power Automate URL with a sig parameter.",
        "webhook.office.com",
        r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/-]{40,400})",
        "https://acme.webhook.office.com/webhookb2/{h8}-{h27}@{h36}/IncomingWebhook/{h32}",
        "https://acme.webhook.office.com/",
    ),
    _row(
        "feishu-dingtalk-webhook",
        "Feishu, Lark, DingTalk, WeCom",
        "Robot webhooks are URLs that end in the robot's token.",
        "open-apis/bot robot/send webhook/send",
        r"(?:open-apis/bot/v2/hook/|robot/send\?access_token=|webhook/send\?key=)([A-Za-z0-9-]{30,80})",
        "https://oapi.dingtalk.com/robot/send?access_token={h64}",
        "https://oapi.dingtalk.com/robot/send",
    ),
    _row(
        "stripe-key",
        "Stripe",
        "Secret and restricted keys begin with sk_ or rk_ and live_ or test_; webhook secrets with whsec_.",
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_",
        _L + r"(?:[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,200}|whsec_[A-Za-z0-9+/=]{24,80})",
        "sk_live_{A24}",
        "sk_test_split sk_test_10",
    ),
    _row(
        "sendgrid-key",
        "SendGrid",
        "API keys are SG., 22 characters, a dot, 43 characters.",
        "sg.",
        _L + r"SG\.[A-Za-z0-9_-]{20,24}\.[A-Za-z0-9_-]{39,50}" + _RW,
        "SG.{w22}.{w43}",
        "SG.step.loss",
    ),
    _row(
        "mailgun-or-mailchimp-key",
        "Mailgun, Mailchimp, Brevo",
        "Mailgun keys are key- and 32 hex digits, Mailchimp keys 32 hex digits and -us1, Brevo keys begin with xkeysib-.",
        "key- -us xkeysib-",
        _L
        + r"(?:key-[0-9a-f]{32}|[0-9a-f]{32}-us\d{1,2}|xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16})"
        + _R,
        "MAILGUN key-{h32}",
        "key-value and run {h32}-user",
    ),
    _row(
        "twilio-token",
        "Twilio",
        "Auth tokens are 32 hex digits, API key secrets 32 alphanumeric characters; both are named by their variable.",
        "twilio",
        r"(?i)twilio[a-z_. ]{0,20}(?:token|secret|key)" + _EQ + r"([A-Za-z0-9]{32,34})" + _R,
        "TWILIO_AUTH_TOKEN={h32}",
        "twilio token rejected",
    ),
    _row(
        "heroku-key",
        "Heroku",
        "API keys begin with HRKU-; older ones are UUIDs named HEROKU_API_KEY.",
        "heroku hrku-",
        r"(?:HRKU-[A-Za-z0-9_-]{36,70}|(?i:heroku_api_key)" + _EQ + r"[0-9a-f]{8}-[0-9a-f-]{27})",
        "HRKU-AA{A58}",
        "heroku build {h8}",
    ),
    _row(
        "cloudflare-token",
        "Cloudflare",
        "API tokens have 40 URL-safe characters, global keys 37 hex digits; both are named by their variable.",
        "cloudflare cf_api",
        r"(?i)(?:cloudflare|cf)_(?:api_)?(?:token|key)" + _EQ + r"([A-Za-z0-9_-]{37,45})" + _RW,
        "CLOUDFLARE_API_TOKEN={A40}",
        "cloudflare_key=none",
    ),
    _row(
        "vault-token",
        "HashiCorp Vault",
        "Service tokens begin with hvs., batch tokens with hvb., recovery tokens with hvr.",
        "hvs. hvb. hvr.",
        _L + r"hv[sbr]\.[A-Za-z0-9_-]{20,400}",
        "VAULT_TOKEN hvs.{w95}",
        "hvs.mean",
    ),
    _row(
        "terraform-token",
        "HashiCorp Terraform",
        "HCP Terraform tokens are 14 characters, .atlasv1. and 60 or more.",
        ".atlasv1.",
        _L + r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80}",
        "{A14}.atlasv1.{w67}",
        "x.atlasv1.y",
    ),
    _row(
        "onepassword-token",
        "1Password",
        "Service account tokens begin with ops_eyJ; secret keys with A3-.",
        "ops_eyj a3-",
        _L
        + r"(?:ops_eyJ[A-Za-z0-9+/=_-]{100,2000}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5})",
        "ops_eyJ{A300}",
        "ops_eyJ A3-B2",
    ),
    _row(
        "doppler-token",
        "Doppler",
        "Tokens begin with dp. and their kind: pt, st, ct, sa, scim, audit.",
        "dp.pt. dp.st. dp.ct. dp.sa.",
        _L + r"dp\.(?:pt|st|ct|sa)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}" + _R,
        "dp.pt.{A43}",
        "dp.sa.loss",
    ),
    _row(
        "datadog-key",
        "Datadog",
        "API keys have 32 and application keys 40 hex digits, sent as DD-API-KEY or DD_API_KEY.",
        "dd-api-key dd_api_key dd-application-key dd_app_key datadog",
        r"(?i)(?:dd[-_](?:api|app(?:lication)?)[-_]key|datadog[a-z_]{0,20}key)"
        + _EQ
        + r"([0-9a-f]{32,40})"
        + _R,
        "DD_API_KEY={h32}",
        "DD_API_KEY missing",
    ),
    _row(
        "newrelic-key",
        "New Relic",
        "User keys begin with NRAK-, licence keys end in NRAL, browser keys begin with NRJS-.",
        "nrak- nrii- nrjs- nral",
        _L
        + r"(?:NRAK-[A-Z0-9]{27}|NRII-[A-Za-z0-9_-]{32}|NRJS-[0-9a-f]{19}|[0-9a-f]{36}NRAL)"
        + _R,
        "NRAK-{U27}",
        "NRAK-",
    ),
    _row(
        "grafana-token",
        "Grafana",
        "Service account tokens begin with glsa_, cloud access tokens with glc_.",
        "glsa_ glc_",
        _L + r"(?:glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}|glc_[A-Za-z0-9+/=]{32,400})",
        "glsa_{A32}_{h8}",
        "glc_loss",
    ),
    _row(
        "sentry-token",
        "Sentry",
        "Organisation tokens begin with sntrys_, user tokens with sntryu_; a DSN holds a 32-digit key before the @.",
        "sntrys_ sntryu_ sentry",
        _L
        + r"(?:sntrys_[A-Za-z0-9+/=_-]{40,500}|sntryu_[0-9a-f]{64}|(?<=https://)[0-9a-f]{32}(?=@[a-z0-9.-]{0,60}sentry))",
        "dsn https://{h32}@o1.ingest.sentry.io/2",
        "sentry event {h32}",
    ),
    _row(
        "pagerduty-opsgenie-key",
        "PagerDuty, Opsgenie",
        "PagerDuty sends `Token token=` and 20 characters, routing keys have 32; Opsgenie sends `GenieKey` and a UUID.",
        "token= routing_key geniekey",
        r"(?:(?i:token token=)|(?i:routing_key)"
        + _EQ
        + r"|GenieKey )([A-Za-z0-9_+-]{20,36})"
        + _RW,
        "Authorization: Token token=y_{A18}",
        "routing_key = expert",
    ),
    _row(
        "linear-notion-airtable-token",
        "Linear, Notion, Airtable",
        "Linear keys begin with lin_api_, Notion ones with ntn_ or secret_, Airtable ones are pat, 14 characters, a dot and 64.",
        "lin_api_ ntn_ secret_ airtable",
        _L
        + r"(?:lin_api_[A-Za-z0-9]{40}|ntn_[A-Za-z0-9]{40,50}|secret_[A-Za-z0-9]{43}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64})"
        + _R,
        "ntn_{d11}{A35}",
        "secret_key patterns",
    ),
    _row(
        "shopify-square-token",
        "Shopify, Square",
        "Shopify tokens begin with shpat_, shpca_, shppa_, shpss_; Square ones with sq0atp- or EAAA.",
        "shpat_ shpca_ shppa_ shpss_ sq0atp- sq0csp- eaaa",
        _L
        + r"(?:shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,50}|EAAA[A-Za-z0-9_-]{56,64}(?![A-Za-z0-9_-]))",
        "shpat_{h32}",
        "shpat_x",
    ),
    _row(
        "fly-netlify-supabase-token",
        "Fly.io, Netlify, Supabase, PlanetScale, Vercel",
        "Tokens begin with fo1_/fm2_, nfp_, sbp_, pscale_tkn_/pscale_pw_, vcp_.",
        "fo1_ fm1a_ fm1r_ fm2_ nfp_ sbp_ pscale_ vcp_",
        _L
        + r"(?:fo1_[A-Za-z0-9_-]{43}|fm(?:1[ar]|2)_[A-Za-z0-9+/=]{100,1000}|nfp_[A-Za-z0-9]{36}|sbp_[0-9a-f]{40}"
        r"|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{32,64}|vcp_[A-Za-z0-9]{24,60})",
        "nfp_{A36}",
        "pscale_factor",
    ),
    _row(
        "tailscale-ngrok-key",
        "Tailscale, ngrok",
        "Tailscale keys begin with tskey-; ngrok auth tokens are set as NGROK_AUTHTOKEN.",
        "tskey- ngrok",
        r"(?:tskey-[a-z]{2,12}-[A-Za-z0-9-]{16,80}|(?i:ngrok_(?:auth|api)_?(?:token|key))"
        + _EQ
        + r"[A-Za-z0-9_]{30,60})",
        "tskey-auth-{A16}-{A32}",
        "tskey-",
    ),
    _row(
        "facebook-token",
        "Meta",
        "Graph API access tokens begin with EAA and have over 100 characters.",
        "eaa",
        _L + r"EAA[A-Za-z0-9]{100,400}" + _R,
        "EAAG{A160}",
        "EAAB",
    ),
    _row(
        "developer-service-token",
        "Dynatrace, Postman, Pulumi, Sourcegraph, ReadMe, Harness, Infracost, Octopus Deploy, MaxMind, Scalingo, Clojars",
        "Tokens with a prefix of their own: dt0c01., PMAK-, pul-, sgp_, rdme_, pat. or sat., ico-, API-, tk-us-, CLOJARS_; "
        "MaxMind keys end in _mmk.",
        "dt0c01. pmak- pul- sgp_ rdme_ pat. sat. ico- api- tk-us- clojars_ _mmk",
        _L
        + r"(?:dt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}|pul-[0-9a-f]{40}"
        r"|sgp_(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}|rdme_[a-z0-9]{70}|[ps]at\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"
        r"|ico-[A-Za-z0-9]{32}|API-[A-Z0-9]{26}|tk-us-[A-Za-z0-9_-]{48}|CLOJARS_[A-Za-z0-9]{60}|[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)"
        + _R,
        "PMAK-{h24}-{h34}",
        "pul-request format. API-VERSION",
    ),
    _row(
        "business-service-token",
        "Adobe, Duffel, EasyPost, Shippo, Flutterwave, Frame.io, SettleMint",
        "Tokens with a prefix of their own: p8e-, duffel_, EZAK or EZTK, shippo_, FLWSECK, fio-u-, sm_aat_.",
        "p8e- duffel_ ezak eztk shippo_ flwseck fio-u- sm_aat_ sm_pat_ sm_sat_",
        _L
        + r"(?:p8e-[A-Za-z0-9]{32}|duffel_(?:test|live)_[A-Za-z0-9_=-]{43}|EZ[AT]K[A-Za-z0-9]{54}|shippo_(?:live|test)_[0-9a-fA-F]{40}"
        r"|FLWSECK(?:_TEST)?-[0-9a-zA-Z]{12,40}(?:-X)?|fio-u-[A-Za-z0-9_=-]{64}|sm_[aps]at_[A-Za-z0-9]{16})"
        + _R,
        "shippo_live_{h40}",
        "p8e-3 shippo_test_x",
    ),
    _row(
        "cloudflare-origin-key",
        "Cloudflare",
        "Origin CA keys are v1.0-, 24 hex digits, a hyphen and 146 hex digits.",
        "v1.0-",
        _L + r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}" + _R,
        "v1.0-{h24}-{h146}",
        "model v1.0-{h24}",
    ),
    _row(
        "encoded-token",
        "Grafana, RFC 7519",
        "JSON that was encoded: older Grafana keys begin with eyJrIjoi, a JWT encoded once more with ZXlK.",
        "eyjrijoi zxlk",
        r"(?<![A-Za-z0-9+/_-])(?:eyJrIjoi[A-Za-z0-9]{60,400}={0,3}|ZXlK[A-Za-z0-9+/_-]{40,8000}={0,2})",
        "eyJrIjoi{A80}",
        "ZXlK",
    ),
    _row(
        "age-key",
        "age",
        "Secret keys begin with AGE-SECRET-KEY-1; 58 capitals and digits follow.",
        "age-secret-key-1",
        r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
        "AGE-SECRET-KEY-1{U58}",
        "AGE-SECRET-KEY-1",
    ),
    _row(
        "munge-credential",
        "MUNGE (Slurm authentication)",
        "A credential is MUNGE:, base64 and a colon; it authenticates its user until it expires.",
        "munge:",
        r"MUNGE:([A-Za-z0-9+/]{60,4000}={0,2})(?::|(?![A-Za-z0-9+/=]))",
        "MUNGE:{b140}:",
        "MUNGE: encode failed",
    ),
    _row(
        "kubeadm-token",
        "Kubernetes",
        "Bootstrap tokens are six characters, a dot and sixteen, all lower case.",
        "--token bootstrap discovery-token",
        r"(?i:--token[= ]|bootstrap[a-z -]{0,20}token[ :=]{1,3}|bootstraptoken:\s{0,3})([a-z0-9]{6}\.[a-z0-9]{16})"
        + _R,
        "kubeadm join 10.0.0.1:6443 --token {a6}.{a16}",
        "--token model.forward",
    ),
    _row(
        "openshift-token",
        "OpenShift",
        "OAuth tokens are sha256~ and 43 characters.",
        "sha256~",
        r"sha256~[A-Za-z0-9_-]{43}" + _RW,
        "oc login --token=sha256~{w43}",
        "sha256:{h64}",
    ),
)

_GENERAL = (
    _row(
        "private-key",
        "PEM, OpenSSH, PGP",
        "Private keys stand between -----BEGIN … PRIVATE KEY----- and the matching END line.",
        "private␣key",
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
        r"(?:-----END (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n{b64}\n{b64}\n-----END OPENSSH PRIVATE KEY-----",
        "could not load PRIVATE KEY: no file",
    ),
    _row(
        "ssh-public-key",
        "OpenSSH",
        "Public key lines are the algorithm and a base64 blob that begins with AAAA; they name a person's key.",
        "ssh-rsa ssh-ed25519 ecdsa-sha2- sk-ssh-",
        r"(?:ssh-rsa|ssh-ed25519|ecdsa-sha2-nistp\d{3}|sk-ssh-ed25519@openssh\.com) (AAAA[A-Za-z0-9+/]{40,4000}={0,3})",
        "ssh-ed25519 AAAAC3Nz{b60} ann",
        "ssh-rsa: no matching host key type",
    ),
    _row(
        "jwt",
        "RFC 7519",
        "A JSON Web Token is three base64url parts; the first two begin with eyJ.",
        "eyj",
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{0,2000}",
        "serviceaccount eyJ{A30}.eyJ{A60}.{w43}",
        "eyJust.a.name",
    ),
    _row(
        "authorization-header",
        "RFC 9110, RFC 6750",
        "Credentials follow the scheme name in an Authorization or Proxy-Authorization header.",
        "authorization",
        r"(?i)authorization[\\\"']{0,2}\s{0,3}[:=]\s{0,3}[\\\"']{0,2}(?:b['\"])?"
        r"((?:bearer|basic|token|digest|apikey|api-key|negotiate|geniekey|aws4-hmac-sha256|sharedkey)\s[^\s\"'\\][^\r\n\"'\\]{2,4000}|[A-Za-z0-9_.~+/=-]{20,4000})",
        "> Authorization: Basic {b24}",
        "Authorization: required",
    ),
    _row(
        "bearer-token",
        "RFC 6750",
        "A bearer token is base64-like and follows the word Bearer.",
        "bearer␣",
        r"(?i)\bbearer ((?=[A-Za-z._~+/=-]{0,200}\d)[A-Za-z0-9._~+/=-]{16,4000})",
        "curl -H 'X: Bearer {A40}'",
        "bearer token expired, bearer authentication-required-here",
    ),
    _row(
        "key-header",
        "HTTP APIs",
        "Keys travel in headers such as X-Api-Key, X-Auth-Token, X-Vault-Token and Private-Token.",
        "api-key -auth-token vault-token private-token",
        r"(?i)(?:(?:x-)?api-key|x-auth-token|x-vault-token|private-token)[\\\"']{0,2}\s{0,3}:\s{0,3}[\\\"']{0,2}"
        r"(?!<)((?=[^\s\"'\\,;]{0,200}\d)[^\s\"'\\,;]{8,4000})",
        "X-Api-Key: {A32}",
        "api-key: required",
    ),
    _row(
        "cookie",
        "RFC 6265",
        "Cookie and Set-Cookie headers hold name=value pairs; a session stands in one of them.",
        "cookie",
        r"(?i)(?<![a-z])(?:set-)?cookie[\\\"']{0,2}\s{0,3}:\s{0,3}[\\\"']{0,2}([^\s\"'\\<=;]{1,100}=[^\r\n\"'\\]{6,4000})",
        "Set-Cookie: session={A24}; Path=/; HttpOnly",
        "cookie: none",
    ),
    _row(
        "url-userinfo",
        "RFC 3986",
        "A URL may carry user:password, or a token alone, before the @ of its host.",
        "://",
        r"[a-z0-9+]://(?:([^\s/@:\"'<>]{0,128}:[^\s/@\"'<>]{1,256})@|([A-Za-z0-9_.~%-]{20,256})@)",
        "https://ann:{A16}@git.example.com/repo.git",
        "tcp://10.0.0.7:29500 and ssh://git@host/x",
    ),
    _row(
        "presigned-url",
        "Amazon S3, Google Cloud Storage, Alibaba OSS",
        "A presigned URL works for whoever has it: its signature, credential and token parameters are the secret.",
        "signature= x-amz- x-goog- x-oss- credential=",
        r"(?i)(?:[?&]|\\u0026)(?:x-(?:amz|goog|oss)-(?:signature|credential|security-token)|signature|ossaccesskeyid|awsaccesskeyid)=([A-Za-z0-9%/+_=.~-]{8,4000})",
        "https://b.s3.amazonaws.com/k?X-Amz-Expires=900&X-Amz-Signature={h64}",
        "forward(signature=model) &signature=abc",
    ),
    _row(
        "url-parameter",
        "HTTP APIs",
        "Tokens and keys as query parameters, as Jupyter and many web hooks print them.",
        "token= key= secret= password= auth=",
        r"(?i)[?&](?:access_token|auth_token|token|api_?key|key|client_secret|secret|password|auth)=((?=[A-Za-z._%~-]{0,200}\d)[A-Za-z0-9._%~+/=-]{16,2000})",
        "http://127.0.0.1:8888/lab?token={h48}",
        "http://host/x?token=1&key=labels",
    ),
    _row(
        "netrc",
        "curl, ftp",
        "A .netrc entry is machine, login and password in one line.",
        "login",
        r"(?i)\blogin\s{1,4}[^\s:]{1,100}\s{1,4}password\s{1,4}([^\s]{4,200})",
        "machine api.example.com login user password {A20}",
        "login failed: password wrong",
    ),
    _row(
        "curl-user",
        "curl, wget, docker, sshpass",
        "Credentials on a command line: -u user:password, --http-password=, -p for docker login and sshpass.",
        "curl docker␣login sshpass wget",
        r"(?:curl\b[^\n]{0,400}?\s(?:-u|--user)[ =][\"']?([^\s:\"']{1,64}:[^\s\"']{3,200})"
        r"|(?:docker login|sshpass)\b[^\n]{0,200}?\s-p[ =]?[\"']?([^\s\"'<$]{4,200}))",
        "curl -sS -u ann:{A12} https://x",
        "curl -u $USER https://x",
    ),
    _row(
        "password",
        "configuration files",
        "A value assigned to a name that ends in password, passwd, passphrase or a database's pwd.",
        "passw passphrase pwd",
        r"(?i)(?:(?<![A-Za-z] )(?:passwd|password|passphrase)|(?:user|db|mysql|pg|redis|smtp|ftp)_?pwd|;pwd)(?:_?\d)?"
        + _EQ
        + r"(?!(?:none|null|nil|true|false|undefined|required|incorrect|wrong|invalid|empty|missing|not|str|string|no|yes|authentication)\b)"
        r"(?![\w.]{1,60}\()(?!\*{3}|<|\$|%[({s]|\{\{|os\.)([^\s\"'`\\,;&<>(){}\[\]]{3,400})",
        "DB_PASSWORD=hunter2{A4}",
        "password: required, password=os.environ['P'], password=${PW} password=None",
    ),
    _row(
        "secret-assignment",
        "configuration files",
        "A value assigned to a name that ends in secret, api key, access key, auth key, private key or credential.",
        "secret api_key api-key apikey _key -key accesskey privatekey accountkey signingkey authkey credential",
        r"(?i)(?<![A-Za-z] )(?:secret(?:[_-]?(?:key|id))?|api[_-]?(?:key|secret)|access[_-]?key(?:[_-]?id)?|auth[_-]?key|private[_-]?key"
        r"|account[_-]?key|encryption[_-]?key|signing[_-]?key|subscription[_-]?key|service[_-]?key|credentials?)"
        + _EQ
        + r"(?![\w.]{1,60}\()(?!\*{3}|<|\$|%[({s]|\{\{|os\.|/|\.)"
        + _RANDOM
        + r"([A-Za-z0-9_.+/=~!@#$%^*-]{12,400})",
        'api_key: "{A24}"',
        "access_key=labels_of_batch_17 secret: my-secret key=0x7f3a12345678 api_key=os.environ",
    ),
    _row(
        "token-assignment",
        "configuration files",
        "A value assigned to a name that ends in token and does not name a tokenizer's token.",
        "token",
        r"(?i)(?:(?<![A-Za-z0-9_.-])(?<![A-Za-z] )token|(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,24}_){0,3}"
        r"(?:access|auth|api|refresh|bearer|session|security|id|secret|private|client|oauth|hf|hub|github|gh|gitlab|wandb|bot"
        r"|slack|ngc|npm|pypi|jwt|csrf|xsrf|vault|deploy|registry|personal|pat|user|login|service|neptune|mlflow|tracking)[_-]?token)"
        + _EQ
        + r"(?![\w.]{1,60}\()(?!\*{3}|<|\$|%[({s]|\{\{|os\.|/|\.)"
        + _RANDOM
        + r"([A-Za-z0-9_.+/=~-]{12,4000})",
        "--hub_token {A0}hub_token={A30}",
        "pad_token=<pad0> tokens: 128 token_type=bearer max_token=512 token: 151645 eos_token=im_end_of_text_1",
    ),
    _row(
        "environment-secret",
        "shell environments",
        "An exported variable whose name ends in _TOKEN, _SECRET, _API_KEY, _ACCESS_KEY, _CREDENTIALS or _AUTH.",
        "_token _secret _key _credentials _auth",
        r"(?<![A-Za-z0-9_])(?!(?:[A-Z0-9]{1,24}_){0,4}(?:PAD|EOS|BOS|UNK|MASK|CLS|SEP|STOP|MAX|MIN|NUM|PER|SPECIAL|IMAGE|AUDIO|VIDEO|START|END|NEXT)_TOKEN)"
        r"(?:[A-Z0-9]{1,24}_){1,5}(?:TOKEN|SECRET|API_?KEY|SECRET_KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?|AUTH)"
        r"(?:=|\"?: {0,2}\"?|'?: {0,2}'?)[\"']?(?!\*{3}|<|\$|\{\{|/|\.)"
        + _RANDOM
        + r"([A-Za-z0-9_.+/=~:-]{10,4000})",
        "ACME_REGISTRY_AUTH={A24}",
        "PAD_TOKEN=abcdefghij1234 SORT_KEY=step_000123 NCCL_AUTH=",
    ),
    _row(
        "secret-option",
        "command lines",
        "The value after an option named password, token, secret or key.",
        "password passwd passphrase secret api-key api_key apikey access-key access_key token",
        r"(?i)(?<![^\s\"'\[])--?(?:[a-z0-9]{1,20}[-_]){0,3}(?:password|passwd|passphrase|secret|api[-_]?key|secret[-_]key|access[-_]key|(?:access|auth|hub|hf|api)[-_]token|token)"
        r"(?:[ =]|[\"'], {0,2})[\"']?(?!--|\*{3}|<|\$|\{\{|/|\.)"
        + _RANDOM
        + r"([^\s\"'`\\,;&<>(){}\[\]]{8,400})",
        "--registry-password {d4}{A12}",
        "--token model --max-tokens 512 --api-key $KEY",
    ),
    _row(
        "email",
        "RFC 5322",
        "An address of a person or a mailbox: name@domain with a known top-level domain.",
        "@",
        r"(?<![A-Za-z0-9._%+@/-])(?!git@|root@localhost)[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,30})\.){1,5}"
        r"(?:com|org|net|edu|gov|mil|int|info|biz|dev|app|cloud|tech|ac|ai|at|au|be|br|ca|ch|cn|co|cz|de|dk|es|eu|fi|fr|gr|hk|hu|ie|il|in|io|it|jp|kr|lu|me|mx|nl|no|nz|pl|pt|ro|ru|se|sg|tr|tw|ua|uk|us|za)"
        r"(?![A-Za-z0-9_(-]|\.[A-Za-z])",
        "#SBATCH --mail-user=ann.lee@example.org",
        "q@k.transpose(1, 2) git@github.com:org/repo user@v1.2 x@self.weight",
    ),
)

FORMATS: tuple[Format, ...] = _CLOUD + _ML + _FORGES + _SERVICES + _GENERAL
