//! The machine that figures were taken on.

use crate::program;
use std::fs::read_to_string;

/// One line: processors, memory, kernel, compiler.
pub fn description() -> String {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    let field = |file: &str, name: &str| {
        let text = read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        line.split_once(':').map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    let memory_kib: u64 =
        field("/proc/meminfo", "MemTotal").split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let compiler = program::output(program::command("rustc").arg("--version")).unwrap_or_default();
    format!(
        "{processors} cores ({}), {} GiB memory, Linux {}, {}",
        field("/proc/cpuinfo", "model name"),
        memory_kib / (1024 * 1024),
        kernel.trim(),
        compiler.trim().split(" (").next().unwrap_or_default(),
    )
}

/// CPU seconds that a process has used so far.
pub fn cpu_seconds(process: u32) -> Result<f64, String> {
    let path = format!("/proc/{process}/stat");
    let text = read_to_string(&path).map_err(|cause| format!("could not read {path}: {cause}"))?;
    // The name in parentheses may hold spaces; user and system time are fields 14 and 15, in ticks of 1/100 s.
    let after_name = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(ticks as f64 / 100.0)
}

/// Most memory that a process has held at once, in MiB.
pub fn peak_mebibytes(process: u32) -> Result<f64, String> {
    let path = format!("/proc/{process}/status");
    let text = read_to_string(&path).map_err(|cause| format!("could not read {path}: {cause}"))?;
    let kibibytes =
        text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().split(' ').next()?.parse::<f64>().ok());
    kibibytes.map(|kibibytes| kibibytes / 1024.0).ok_or_else(|| format!("{path} has no VmHWM"))
}

/// Bytes that a process has written to files and sockets so far.
pub fn written_bytes(process: u32) -> Result<f64, String> {
    let path = format!("/proc/{process}/io");
    let text = read_to_string(&path).map_err(|cause| format!("could not read {path}: {cause}"))?;
    let bytes = text.lines().find_map(|line| line.strip_prefix("wchar:")?.trim().parse().ok());
    bytes.ok_or_else(|| format!("{path} has no wchar"))
}
