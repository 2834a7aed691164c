//! LAG: how late the heartbeats of a group are, hop by hop, day by day, and as a plot

use crate::console::parse::Command;
use crate::console::plot::{self, Series};
use crate::console::verb::heartbeat::heartbeats;
use crate::console::verb::send;
use crate::console::{Console, Failure};
use crate::run::heartbeat::{arrivals, history};
use change::Timestamp;
use process::heartbeat::{Direction, Heartbeat, Hop, Lags, days_of};
use process::{GroupKind, clock};
use std::collections::BTreeMap;

/// Age from which on a heartbeat is told to be late, in microseconds.
const LATE_MICROS: i64 = 180_000_000;
/// Clocks that agree to this are taken to agree, in microseconds.
const SKEW_MICROS: i64 = 1_000;

/// One direction of a row.
struct Shown {
    from: String,
    to: String,
    way: String,
    stamp: Option<Timestamp>,
    lags: Lags,
}

/// LAG EXTRACT
pub fn extract(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    if command.options.is_empty() {
        send::lag_extract(console, command)?;
    }
    show(console, GroupKind::Extract, command.argument(), command)
}

/// LAG REPLICAT
pub fn replicat(console: &mut Console<'_>, command: &Command) -> Result<(), Failure> {
    if command.options.is_empty() {
        send::lag_replicat(console, command)?;
    }
    show(console, GroupKind::Replicat, command.argument(), command)
}

/// Shows the heartbeats that `group` passes on, or with GLOBAL all that the database knows of.
fn show(console: &mut Console<'_>, kind: GroupKind, group: &str, command: &Command) -> Result<(), Failure> {
    // The group has answered; heartbeats are for those who are logged in where they arrive.
    if command.options.is_empty() && console.login.is_none() {
        return Ok(());
    }
    let mut heartbeats = heartbeats(console)?;
    let Some(state) = heartbeats.inspect()? else {
        if command.options.is_empty() {
            return Ok(());
        }
        writeln!(console.output, "There are no heartbeat tables in this database: ADD HEARTBEATTABLE.")?;
        return Ok(());
    };
    let is_global = command.has("GLOBAL");
    let is_wanted = |direction: &Direction| {
        let named = match kind {
            GroupKind::Extract => &direction.extract,
            GroupKind::Replicat => &direction.replicat,
        };
        is_global || named.as_deref() == Some(group)
    };
    if command.has("HISTORY") || command.has("PLOT") {
        let rows = history(&mut *heartbeats)?;
        let mut ways: BTreeMap<String, Vec<(Timestamp, i64)>> = BTreeMap::new();
        for row in rows.iter().filter(|row| is_wanted(&row.incoming)) {
            let Some(lag) = Lags::of(&row.incoming, Some(row.stamp)).total else { continue };
            let from = row.remote_database.as_deref().unwrap_or_default();
            let way = format!("{from}: {}", row.incoming.way().unwrap_or_default());
            let points = ways.entry(way).or_default();
            // A heartbeat that came with several ways out came in once.
            if points.last() != Some(&(row.stamp, lag)) {
                points.push((row.stamp, lag));
            }
        }
        if let Some(path) = command.option("PLOT") {
            return draw(console, path, ways);
        }
        return by_day(console, &ways);
    }
    let mut shown = Vec::new();
    for row in arrivals(&mut *heartbeats)? {
        shown
            .extend(directions(&row).into_iter().filter(|(direction, _)| is_wanted(direction)).map(|(_, shown)| shown));
    }
    // Rows that differ in the other direction only tell the same; the newest counts.
    shown.sort_by(|one: &Shown, other| {
        (&one.from, &one.to, &one.way, other.stamp).cmp(&(&other.from, &other.to, &other.way, one.stamp))
    });
    shown.dedup_by(|later, first| (&later.from, &later.to, &later.way) == (&first.from, &first.to, &first.way));
    if shown.is_empty() {
        writeln!(console.output, "No heartbeat has come this way.")?;
        return Ok(());
    }
    say(console, &shown, state.now)
}

/// Both directions of a row, as far as heartbeats came that way.
fn directions(row: &Heartbeat) -> Vec<(&Direction, Shown)> {
    let (local, remote) = (row.local_database.clone(), row.remote_database.clone().unwrap_or_default());
    let way = |direction: &Direction| direction.way().unwrap_or_default();
    let mut both = vec![(
        &row.incoming,
        Shown {
            from: remote.clone(),
            to: local.clone(),
            way: way(&row.incoming),
            stamp: row.incoming.heartbeat_time,
            lags: Lags::of(&row.incoming, Some(row.stamp)),
        },
    )];
    if row.outgoing.heartbeat_time.is_some() {
        // The last thing that came back is when the remote Replicat read it.
        let mut lags = Lags::of(&row.outgoing, row.outgoing.replicat_time);
        lags.hops[Hop::Apply as usize] = None;
        let outgoing =
            Shown { from: local, to: remote, way: way(&row.outgoing), stamp: row.outgoing.heartbeat_time, lags };
        both.push((&row.outgoing, outgoing));
    }
    both
}

fn say(console: &mut Console<'_>, shown: &[Shown], now: Timestamp) -> Result<(), Failure> {
    let hops = Hop::ALL.map(|hop| hop.name().to_uppercase());
    let mut lines = [vec!["LAG", "AGE"], hops.iter().map(String::as_str).collect(), vec!["FROM", "TO", "PATH"]]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let mut rows = vec![std::mem::take(&mut lines)];
    let told = |lag: Option<i64>| lag.map_or_else(|| "-".to_owned(), duration);
    for row in shown {
        let age = row.stamp.map(|stamp| now.micros_since(stamp));
        let mut line = vec![told(row.lags.total), told(age)];
        line.extend(Hop::ALL.map(|hop| told(row.lags.hop(hop))));
        line.extend([row.from.clone(), row.to.clone(), row.way.clone()]);
        rows.push(line);
    }
    table(console, &rows)?;
    for row in shown {
        if let Some(skew) = row.lags.clock_skew().filter(|skew| skew.micros > SKEW_MICROS) {
            writeln!(console.output, "WARNING: {} from {}: {}.", row.way, row.from, skew.in_words())?;
        }
        let age = row.stamp.map_or(0, |stamp| now.micros_since(stamp));
        if age > LATE_MICROS {
            writeln!(
                console.output,
                "WARNING: {} from {}: the last heartbeat is {} old.",
                row.way,
                row.from,
                duration(age)
            )?;
        }
    }
    Ok(())
}

fn by_day(console: &mut Console<'_>, ways: &BTreeMap<String, Vec<(Timestamp, i64)>>) -> Result<(), Failure> {
    let mut rows = vec![["DAY", "COUNT", "MIN", "AVG", "MAX", "PATH"].map(str::to_owned).to_vec()];
    for (way, points) in ways {
        for day in days_of(points.iter().copied()) {
            let date = clock::to_second(day.day).chars().take(10).collect();
            let (least, average, greatest) = (duration(day.least), duration(day.average), duration(day.greatest));
            rows.push(vec![date, day.count.to_string(), least, average, greatest, way.clone()]);
        }
    }
    if rows.len() == 1 {
        writeln!(console.output, "No heartbeat has come this way.")?;
        return Ok(());
    }
    table(console, &rows)
}

fn draw(console: &mut Console<'_>, path: &str, ways: BTreeMap<String, Vec<(Timestamp, i64)>>) -> Result<(), Failure> {
    let series: Vec<Series> = ways.into_iter().map(|(name, points)| Series { name, points }).collect();
    let Some(svg) = plot::svg("Lag of heartbeats", &series) else {
        return Err(Failure::new("there is nothing to plot: no heartbeat has come this way")
            .with_next_step("wait for heartbeats; LAG with GLOBAL shows all ways"));
    };
    let path = console.home.path().join(path);
    std::fs::write(&path, svg).map_err(|error| Failure::new(format!("could not write {}: {error}", path.display())))?;
    let count: usize = series.iter().map(|series| series.points.len()).sum();
    writeln!(console.output, "{count} heartbeats of {} ways plotted into {}.", series.len(), path.display())?;
    Ok(())
}

/// Writes columns below each other; all but the last three hold numbers.
fn table(console: &mut Console<'_>, rows: &[Vec<String>]) -> Result<(), Failure> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cell = |(column, text): (usize, &String)| format!("{text:<width$}", width = widths[column]);
        let line: Vec<String> = row.iter().enumerate().map(cell).collect();
        writeln!(console.output, "{}", line.join("  ").trim_end())?;
    }
    Ok(())
}

/// Microseconds as people read them: `5.77s`, `10m 22.87s`, `-0.50s`.
pub fn duration(micros: i64) -> String {
    let hundredths = (micros.unsigned_abs() + 5_000) / 10_000;
    let (minutes, rest) = (hundredths / 6_000, hundredths % 6_000);
    let seconds = format!("{}.{:02}s", rest / 100, rest % 100);
    let sign = if micros < 0 && hundredths > 0 { "-" } else { "" };
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}"),
        (0, minutes) => format!("{sign}{minutes}m {seconds}"),
        (hours, minutes) => format!("{sign}{hours}h {minutes}m {seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_read_as_in_goldengate() {
        assert_eq!(duration(5_770_000), "5.77s");
        assert_eq!(duration(622_870_000), "10m 22.87s");
        assert_eq!(duration(3_723_000_000), "1h 2m 3.00s");
        assert_eq!(duration(-500_000), "-0.50s");
        assert_eq!(duration(-4_999), "0.00s");
        assert_eq!(duration(0), "0.00s");
    }
}
