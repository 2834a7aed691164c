//! What the processes of a run have used.

use super::cluster::Cluster;
use crate::bench::machine;
use std::collections::HashMap;
use std::process::Child;

/// CPU seconds and peak memory by part; parts that a contender does not have stay at zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// The source's process that decodes and sends.
    pub walsender: f64,
    /// The target's process that applies: native's worker, or the session of Drover's Replicat.
    pub applying: f64,
    /// All other processes of the target.
    pub target_rest: f64,
    /// The Extract, or pg_recvlogical.
    pub extract: f64,
    /// The Replicat.
    pub replicat: f64,
    /// Most memory that the Extract held, in MiB.
    pub extract_peak: f64,
    /// Most memory that the Replicat held, in MiB.
    pub replicat_peak: f64,
}

/// CPU seconds of servers' processes before a run.
pub struct Before(HashMap<u32, f64>);

impl Before {
    /// Takes the figures of now.
    pub fn of(clusters: [&Cluster<'_>; 2]) -> Before {
        let processes = clusters.into_iter().flat_map(|cluster| cluster.processes().into_keys());
        Before(processes.filter_map(|process| Some((process, machine::cpu_seconds(process).ok()?))).collect())
    }

    /// What was used since. `extract` and `replicat` were started after it, and still run.
    pub fn until_now(
        &self,
        [source, target]: [&Cluster<'_>; 2],
        extract: Option<&Child>,
        replicat: Option<&Child>,
    ) -> Usage {
        let mut usage = Usage::default();
        let used = |process: u32| {
            let now = machine::cpu_seconds(process).unwrap_or(0.0);
            now - self.0.get(&process).copied().unwrap_or(0.0)
        };
        for (process, title) in source.processes() {
            if title.contains("walsender") {
                usage.walsender += used(process);
            }
        }
        for (process, title) in target.processes() {
            // A session's title has its user, its database and where it comes from.
            let is_applying = title.contains("logical replication worker")
                || title.contains("logical replication apply worker")
                || title.contains("pglogical apply")
                || title.contains("[local]");
            *(if is_applying { &mut usage.applying } else { &mut usage.target_rest }) += used(process);
        }
        if let Some(extract) = extract {
            usage.extract = used(extract.id());
            usage.extract_peak = machine::peak_mebibytes(extract.id()).unwrap_or(0.0);
        }
        if let Some(replicat) = replicat {
            usage.replicat = used(replicat.id());
            usage.replicat_peak = machine::peak_mebibytes(replicat.id()).unwrap_or(0.0);
        }
        usage
    }
}
