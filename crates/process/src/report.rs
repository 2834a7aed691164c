//! The report of a group's run.

use crate::{GroupKind, GroupName, Home, Message, Statistics, clock};
use change::Timestamp;
use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

/// Reports of earlier runs that are kept.
const AGED_MAX: u32 = 10;

const RULE: &str = "***********************************************************************";

/// What a report starts with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportHeader {
    /// The program, such as `Drover Extract for SQLite`.
    pub program: String,
    /// Its version.
    pub version: String,
    /// When the process started.
    pub started: Timestamp,
    /// Kind of the group.
    pub kind: GroupKind,
    /// The group.
    pub group: GroupName,
    /// The home.
    pub home: String,
    /// The machine.
    pub host: String,
    /// The process.
    pub process_id: u32,
    /// The parameter file's name.
    pub parameter_file: String,
    /// The parameter file's text. Secrets must be hidden in it already.
    pub parameters: String,
}

/// Writes the banner, the environment and the parameters.
impl fmt::Display for ReportHeader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{RULE}")?;
        for line in [
            self.program.clone(),
            format!("Version {}", self.version),
            format!("Started {} UTC", clock::to_second(self.started)),
        ] {
            writeln!(formatter, "{}", format!("{line:^71}").trim_end())?;
        }
        writeln!(formatter, "{RULE}\n")?;
        writeln!(formatter, "Group:           {} {}", self.kind, self.group)?;
        writeln!(formatter, "Home:            {}", self.home)?;
        writeln!(formatter, "Host:            {}", self.host)?;
        writeln!(formatter, "Process id:      {}", self.process_id)?;
        writeln!(formatter, "Parameter file:  {}", self.parameter_file)?;
        formatter.write_str(&title("Running with the following parameters"))?;
        writeln!(formatter, "{}", self.parameters.trim_end())?;
        formatter.write_str(&title("Run Time Messages"))
    }
}

fn title(text: &str) -> String {
    format!("\n{RULE}\n**{text:^67}**\n{RULE}\n\n")
}

/// The report of a group's run, `dirrpt/E1.rpt`.
///
/// Reports of earlier runs are kept as `E1-0.rpt`, the run before, to `E1-9.rpt`. The hyphen, which no group name has, keeps
/// them apart from the reports of groups such as `E10`.
#[derive(Debug)]
pub struct Report {
    file: File,
    path: PathBuf,
    written: &'static str,
}

impl Report {
    /// Starts the report of a run and ages the earlier ones.
    ///
    /// # Errors
    /// When a file can't be renamed or created.
    pub fn open(home: &Home, header: &ReportHeader) -> io::Result<Report> {
        let path = home.report_file(&header.group);
        for age in (0..AGED_MAX).rev() {
            let newer = if age == 0 { path.clone() } else { aged(home, &header.group, age - 1) };
            match fs::rename(&newer, aged(home, &header.group, age)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let mut file = File::create(&path)?;
        file.write_all(header.to_string().as_bytes())?;
        let written = match header.kind {
            GroupKind::Extract => "Written",
            GroupKind::Replicat => "Applied",
        };
        Ok(Report { file, path, written })
    }

    /// Where it is.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Appends a message.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn append(&mut self, message: &Message) -> io::Result<()> {
        self.file.write_all(format!("{message}\n").as_bytes())
    }

    /// Appends the statistics as they are at `now`: at the end of a run, or when somebody asks.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn append_statistics(&mut self, statistics: &Statistics, now: Timestamp) -> io::Result<()> {
        self.file.write_all(render_statistics(statistics, self.written, now).as_bytes())
    }
}

fn aged(home: &Home, group: &GroupName, age: u32) -> PathBuf {
    home.dirrpt().join(format!("{group}-{age}.rpt"))
}

fn render_statistics(statistics: &Statistics, written: &str, now: Timestamp) -> String {
    let mut text = title("Run Time Statistics");
    let (now, since) = (clock::to_second(now), clock::to_second(statistics.since()));
    _ = write!(text, "Report at {now} (activity since {since})\n\n{}", statistics.render(written));
    text
}
