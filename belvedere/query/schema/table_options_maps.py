"""The table options that are maps: caching, compaction, compression, extensions."""

from belvedere.query.errors import ConfigurationError

Options = dict[str, str]

_COMPACTION = "org.apache.cassandra.db.compaction."
_COMPRESS = "org.apache.cassandra.io.compress."

_COMMON_COMPACTION = frozenset(
    {
        "enabled",
        "log_all",
        "max_threshold",
        "min_threshold",
        "only_purge_repaired_tombstones",
        "provide_overlapping_tombstones",
        "tombstone_compaction_interval",
        "tombstone_threshold",
        "unchecked_tombstone_compaction",
    }
)
_COMPACTION_OPTIONS = {
    "SizeTieredCompactionStrategy": {"bucket_high", "bucket_low", "min_sstable_size"},
    "LeveledCompactionStrategy": {"sstable_size_in_mb", "fanout_size", "single_sstable_uplevel"},
    "TimeWindowCompactionStrategy": {
        *("bucket_high", "bucket_low", "min_sstable_size"),
        *("compaction_window_size", "compaction_window_unit", "timestamp_resolution"),
        *("expired_sstable_check_frequency_seconds", "unsafe_aggressive_sstable_expiration"),
    },
    "UnifiedCompactionStrategy": {
        *("base_shard_count", "expired_sstable_check_frequency_seconds", "flush_size_override"),
        *("max_sstables_to_compact", "min_sstable_size", "overlap_inclusion_method", "scaling_parameters"),
        *("sstable_growth", "target_sstable_size", "unsafe_aggressive_sstable_expiration"),
    },
}
_THRESHOLDS = {"max_threshold": "32", "min_threshold": "4"}
_WITH_THRESHOLDS = ("SizeTieredCompactionStrategy", "TimeWindowCompactionStrategy")

_COMPRESSORS = frozenset(
    {"LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor", "NoopCompressor"}
)
_COMPRESSION_OPTIONS = frozenset(
    {
        *("chunk_length_in_kb", "compression_level", "crc_check_chance", "lz4_compressor_type"),
        *("lz4_high_compressor_level", "max_compressed_length", "min_compress_ratio"),
    }
)
_DEFAULT_CHUNK_KB = "16"


def check_caching(given: Options) -> Options:
    unknown = sorted(given.keys() - {"keys", "rows_per_partition"})
    if unknown:
        raise ConfigurationError(
            f"Invalid caching sub-options {', '.join(unknown)}: "
            "only 'keys' and 'rows_per_partition' are allowed"
        )
    keys = given.get("keys", "ALL").upper()
    if keys not in ("ALL", "NONE"):
        raise ConfigurationError(
            "Invalid value for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed"
        )
    rows = given.get("rows_per_partition", "NONE").upper()
    if rows not in ("ALL", "NONE") and not (rows.isascii() and rows.isdigit()):
        raise ConfigurationError(
            "Invalid value for caching sub-option 'rows_per_partition': "
            "only 'ALL', 'NONE' and integer values are allowed"
        )
    return {"keys": keys, "rows_per_partition": rows}


def check_compaction(given: Options) -> Options:
    options = dict(given)
    written = options.pop("class", None)
    if written is None:
        raise ConfigurationError("Missing sub-option 'class' for the 'compaction' option.")
    strategy = written.removeprefix(_COMPACTION)
    if strategy not in _COMPACTION_OPTIONS:
        full_name = written if "." in written else _COMPACTION + written
        raise ConfigurationError(f"Unable to find compaction strategy class '{full_name}'")
    unknown = sorted(options.keys() - _COMMON_COMPACTION - _COMPACTION_OPTIONS[strategy])
    if unknown:
        raise ConfigurationError(
            f"Properties specified [{', '.join(unknown)}] are not understood by {strategy}"
        )
    if strategy in _WITH_THRESHOLDS:
        options = {**_THRESHOLDS, **options}
    _check_thresholds(options)
    return {"class": _COMPACTION + strategy, **dict(sorted(options.items()))}


def _check_thresholds(options: Options) -> None:
    numbers = {}
    for name in ("min_threshold", "max_threshold"):
        if name in options:
            try:
                numbers[name] = int(options[name])
            except ValueError:
                raise ConfigurationError(
                    f"Invalid value {options[name]} for '{name}' compaction sub-option - must be an integer"
                ) from None
    low, high = numbers.get("min_threshold"), numbers.get("max_threshold")
    if low is not None and low < 2:
        raise ConfigurationError(f"Min compaction threshold cannot be less than 2 (got {low})")
    if low is not None and high is not None and low > high:
        raise ConfigurationError(
            f"Min compaction threshold (got {low}) cannot be greater than "
            f"max compaction threshold (got {high})"
        )


def check_compression(given: Options) -> Options:
    """{} and {'enabled': 'false'} turn compression off."""
    options = dict(given)
    enabled = options.pop("enabled", "true").lower() == "true"
    written = options.pop("class", options.pop("sstable_compression", None))
    if not enabled or (written is None and not options) or written == "":
        return {"enabled": "false"}
    if written is None:
        raise ConfigurationError("Missing sub-option 'class' for the 'compression' option.")
    compressor = written.removeprefix(_COMPRESS)
    if compressor not in _COMPRESSORS:
        full_name = written if "." in written else _COMPRESS + written
        raise ConfigurationError(f"Could not create Compression for type {full_name}")
    unknown = sorted(options.keys() - _COMPRESSION_OPTIONS)
    if unknown:
        raise ConfigurationError(f"Unknown compression options {', '.join(unknown)}")
    chunk = options.setdefault("chunk_length_in_kb", _DEFAULT_CHUNK_KB)
    if not (chunk.isascii() and chunk.isdigit()) or int(chunk) == 0 or int(chunk) & (int(chunk) - 1):
        raise ConfigurationError("chunk_length_in_kb must be a power of 2")
    return dict(sorted({"class": _COMPRESS + compressor, **options}.items()))


def check_extensions(given: Options) -> Options:
    for name, value in given.items():
        try:
            bytes.fromhex(value.removeprefix("0x"))
        except ValueError:
            raise ConfigurationError(f"Invalid value for extension '{name}': it should be a blob") from None
    return dict(sorted(given.items()))
