//! Statistics since the start, since midnight, since the full hour and since somebody reset them (STATS).

use crate::channel::{StatisticsPart, StatisticsRequest};
use crate::{Counts, GroupKind, Statistics, clock};
use change::{OperationKind, TableName, Timestamp};
use std::collections::BTreeMap;

const DAY: i64 = 86_400_000_000;
const HOUR: i64 = 3_600_000_000;

/// Where each part of the statistics begins.
#[derive(Debug, Default)]
pub struct StatisticsParts {
    day: Option<Base>,
    hour: Option<Base>,
    latest: Option<Base>,
}

#[derive(Debug)]
struct Base {
    /// Number of the day or hour; nothing of the kind for what was reset.
    number: i64,
    since: Timestamp,
    /// What was counted then.
    counted: Statistics,
}

impl StatisticsParts {
    /// Begins a new day or hour when one has begun. To be called often: what is counted between the boundary and the call
    /// goes to the part that has ended.
    pub fn look(&mut self, now: Timestamp, statistics: &Statistics) {
        for (part, length) in [(&mut self.day, DAY), (&mut self.hour, HOUR)] {
            let number = now.unix_micros.div_euclid(length);
            if part.as_ref().is_none_or(|base| base.number != number) {
                let begins = Timestamp::from_unix_micros(number * length);
                let since = if part.is_none() { begins.max(statistics.since()) } else { begins };
                *part = Some(Base { number, since, counted: statistics.clone() });
                if since == statistics.since() {
                    // The process is younger than the day.
                    *part = Some(Base { number, since, counted: Statistics::new(since) });
                }
            }
        }
    }

    /// Lets the latest part begin anew.
    pub fn reset(&mut self, now: Timestamp, statistics: &Statistics) {
        self.latest = Some(Base { number: 0, since: now, counted: statistics.clone() });
    }

    /// The lines of STATS. `heading` tells what the group writes to.
    pub fn describe(
        &self,
        kind: GroupKind,
        heading: &str,
        request: &StatisticsRequest,
        statistics: &Statistics,
        now: Timestamp,
    ) -> Vec<String> {
        let all = [StatisticsPart::Total, StatisticsPart::Daily, StatisticsPart::Hourly, StatisticsPart::Latest];
        let parts = if request.parts.is_empty() { &all[..] } else { &request.parts };
        let parts: Vec<(&str, Timestamp, Statistics)> = parts
            .iter()
            .map(|part| {
                let (word, base) = match part {
                    StatisticsPart::Total => ("Total", None),
                    StatisticsPart::Daily => ("Daily", self.day.as_ref()),
                    StatisticsPart::Hourly => ("Hourly", self.hour.as_ref()),
                    StatisticsPart::Latest => ("Latest", self.latest.as_ref()),
                };
                // Statistics that began anew with a new attempt know nothing of what was counted before.
                let base = base.filter(|base| base.counted.since() == statistics.since());
                match base {
                    Some(base) => (word, base.since, statistics.beyond(&base.counted)),
                    None => (word, statistics.since(), statistics.clone()),
                }
            })
            .collect();
        let is_wanted = |table: &TableName| {
            request.table.as_deref().is_none_or(|pattern| {
                matches(&pattern.to_lowercase(), &table.to_string().replace('"', "").to_lowercase())
            })
        };
        let mut lines = vec![format!("Start of Statistics at {}.", clock::to_second(now)), String::new()];
        lines.push(heading.to_owned());
        let mut tables: BTreeMap<TableName, ()> = BTreeMap::new();
        for (table, _) in statistics.tables().filter(|(table, _)| is_wanted(table)) {
            tables.insert(table.clone(), ());
        }
        if tables.is_empty() {
            lines.extend([String::new(), "No database operations have been performed.".to_owned()]);
        }
        if request.totals_only && !tables.is_empty() {
            let pattern = request.table.as_deref().unwrap_or("*.*");
            lines.extend([String::new(), format!("Cumulative totals for specified table(s): {pattern}")]);
            for (word, since, counted) in &parts {
                let mut sum = [Counts::default(); OperationKind::ALL.len()];
                for (_, kinds) in counted.tables().filter(|(table, _)| tables.contains_key(*table)) {
                    sum.iter_mut().zip(kinds).for_each(|(sum, counts)| sum.add(counts));
                }
                put(&mut lines, word, *since, &sum);
            }
        }
        let verb = if kind == GroupKind::Extract { "Extracting" } else { "Replicating" };
        for table in tables.keys().filter(|_| !request.totals_only) {
            lines.extend([String::new(), format!("{verb} from {table}:")]);
            for (word, since, counted) in &parts {
                let none = [Counts::default(); OperationKind::ALL.len()];
                let kinds = counted.tables().find(|(name, _)| *name == table).map_or(none, |(_, kinds)| *kinds);
                put(&mut lines, word, *since, &kinds);
            }
        }
        lines.extend([String::new(), "End of Statistics.".to_owned()]);
        lines
    }
}

fn put(lines: &mut Vec<String>, word: &str, since: Timestamp, kinds: &[Counts; OperationKind::ALL.len()]) {
    lines.extend([String::new(), format!("*** {word} statistics since {} ***", clock::to_second(since))]);
    if kinds.iter().all(|counts| counts.written == 0) {
        lines.push("        No database operations have been performed.".to_owned());
        return;
    }
    let mut line =
        |label: &str, number: u64| lines.push(format!("        {:<32}{:>14}.00", format!("Total {label}"), number));
    for (kind, counts) in OperationKind::ALL.iter().zip(kinds) {
        // A truncation is rare enough that operators expect its line only when there was one.
        if *kind != OperationKind::Truncate || counts.written > 0 {
            line(&format!("{kind}s"), counts.written);
        }
    }
    line("operations", kinds.iter().map(|counts| counts.written).sum());
}

/// Whether `text` is like `pattern`, in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text.strip_prefix(start).is_some_and(|text| {
            (0..=text.len()).filter(|at| text.is_char_boundary(*at)).any(|at| matches(rest, &text[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(hour: i64, minute: i64) -> Timestamp {
        Timestamp::from_unix_micros(hour * HOUR + minute * 60_000_000)
    }

    fn count(statistics: &mut Statistics, table: &str, kind: OperationKind, number: u64) {
        let table = statistics.table(&TableName::new("s", table));
        let counts = statistics.counts_mut(table, kind);
        counts.read += number;
        counts.written += number;
    }

    #[test]
    fn each_part_counts_from_its_own_beginning() {
        let mut statistics = Statistics::new(time(22, 30));
        let mut parts = StatisticsParts::default();
        parts.look(time(22, 30), &statistics);
        count(&mut statistics, "t", OperationKind::Insert, 1);
        parts.look(time(23, 1), &statistics);
        count(&mut statistics, "t", OperationKind::Insert, 10);
        parts.look(time(24, 1), &statistics);
        count(&mut statistics, "t", OperationKind::Insert, 100);
        count(&mut statistics, "u", OperationKind::Delete, 7);
        parts.look(time(25, 0), &statistics);
        parts.reset(time(25, 30), &statistics);
        count(&mut statistics, "t", OperationKind::Insert, 1000);
        let request = StatisticsRequest { table: Some("S.T".to_owned()), ..StatisticsRequest::default() };
        let lines = parts.describe(GroupKind::Extract, "Output to ./dirdat/aa:", &request, &statistics, time(25, 40));
        let shown: Vec<String> = lines
            .iter()
            .filter(|line| line.starts_with("***") || line.contains("operations"))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            shown,
            [
                "*** Total statistics since 1970-01-01 22:30:00 ***",
                "Total operations 1111.00",
                "*** Daily statistics since 1970-01-02 00:00:00 ***",
                "Total operations 1100.00",
                "*** Hourly statistics since 1970-01-02 01:00:00 ***",
                "Total operations 1000.00",
                "*** Latest statistics since 1970-01-02 01:30:00 ***",
                "Total operations 1000.00",
            ]
        );
        assert!(lines.contains(&"Extracting from s.t:".to_owned()));
        let request = StatisticsRequest { totals_only: true, parts: vec![StatisticsPart::Total], ..Default::default() };
        let lines = parts.describe(GroupKind::Replicat, "", &request, &statistics, time(25, 40));
        assert!(lines.iter().any(|line| line.contains("operations") && line.ends_with("1118.00")), "{lines:?}");
    }

    #[test]
    fn a_pattern_stands_for_any_characters() {
        for (pattern, text, is_like) in [
            ("*", "s.t", true),
            ("s.*", "s.t", true),
            ("s.t", "s.tt", false),
            ("*t*u", "s.tau", true),
            ("*é", "é", true),
        ] {
            assert_eq!(matches(pattern, text), is_like, "{pattern} {text}");
        }
    }
}
