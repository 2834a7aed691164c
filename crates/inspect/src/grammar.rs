//! Logdump's commands, as one table: parser, help, completion and the reference page come from it.

use crate::session::{Done, Request, Session, verb};

/// Which page of the help a command stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Files and positions.
    Files,
    /// Reading records.
    Reading,
    /// Looking for records.
    Searching,
    /// What is shown.
    Display,
    /// Which records count.
    Filters,
    /// Counting.
    Statistics,
    /// The session.
    Session,
    /// Known, and not done.
    Refused,
}

impl Topic {
    /// All topics, in the order of the help.
    pub const ALL: [Topic; 8] = [
        Topic::Files,
        Topic::Reading,
        Topic::Searching,
        Topic::Display,
        Topic::Filters,
        Topic::Statistics,
        Topic::Session,
        Topic::Refused,
    ];

    /// Its title.
    pub fn title(self) -> &'static str {
        match self {
            Topic::Files => "Files and positions",
            Topic::Reading => "Reading records",
            Topic::Searching => "Looking for records",
            Topic::Display => "What is shown",
            Topic::Filters => "Filters",
            Topic::Statistics => "Statistics",
            Topic::Session => "The session",
            Topic::Refused => "Commands that are known and not done here",
        }
    }
}

/// What a command does.
pub type Run = fn(&mut Session, &mut Request<'_, '_>) -> Done;

/// One command.
pub struct Form {
    /// Its name, in upper case.
    pub name: &'static str,
    /// Other names that it goes by.
    pub aliases: &'static [&'static str],
    /// What may follow the name.
    pub usage: &'static str,
    /// Words that may follow, for completion.
    pub words: &'static [&'static str],
    /// Which page of the help it stands on.
    pub topic: Topic,
    /// One line: what it does.
    pub summary: &'static str,
    /// More; empty when the line says all.
    pub details: &'static str,
    /// Does it.
    pub run: Run,
}

#[expect(clippy::too_many_arguments, reason = "a row of the table has as many columns")]
const fn form(
    name: &'static str,
    aliases: &'static [&'static str],
    usage: &'static str,
    words: &'static [&'static str],
    topic: Topic,
    summary: &'static str,
    details: &'static str,
    run: Run,
) -> Form {
    Form { name, aliases, usage, words, topic, summary, details, run }
}

const fn refused(name: &'static str, aliases: &'static [&'static str], summary: &'static str) -> Form {
    form(name, aliases, "", &[], Topic::Refused, summary, "", verb::refuse)
}

const ON_OFF: &[&str] = &["ON", "OFF"];
const DEPTHS: &[&str] = &["ON", "OFF", "DETAIL"];

/// Every command.
pub const COMMANDS: &[Form] = &[
    form(
        "OPEN",
        &["FROM"],
        "file",
        &[],
        Topic::Files,
        "opens a file of a trail and stands at its start",
        "The file may be of any product and in any of the three byte orders. Without a file it shows which one is open.",
        verb::open,
    ),
    form("NEXTTRAIL", &["NT"], "", &[], Topic::Files, "opens the trail's next file", "", verb::next_trail),
    form(
        "POSITION",
        &["POS"],
        "rba | FIRST | LAST | EOF | REVERSE | FORWARD",
        &["FIRST", "LAST", "EOF", "REVERSE", "FORWARD"],
        Topic::Files,
        "goes to a byte of the file, and says in which direction NEXT reads",
        "LAST stands in front of the last record, EOF behind it. REVERSE and FORWARD change the direction and nothing else; \
         a position makes it forward. Without an argument it shows the position.",
        verb::position,
    ),
    form(
        "BEGIN",
        &[],
        "time",
        &[],
        Topic::Files,
        "goes to the first record of the file from a time on",
        "Times are [[yy]yy-mm-dd] [hh[:mm][:ss]] in the zone of TIMEOFFSET; without a date they are of today.",
        verb::begin,
    ),
    form(
        "SAVE",
        &[],
        "file [!] {n RECORDS | n BYTES} [NOCOMMENT | COMMENT] [TRUNCATE] [TRANSIND FIRST|MIDDLE|END|ONLY]",
        &["RECORDS", "BYTES", "COMMENT", "NOCOMMENT", "TRUNCATE", "TRANSIND", "NEWFORMAT"],
        Topic::Files,
        "writes the next records that pass the filters into a file of their own",
        "! replaces a file that is there, TRUNCATE empties it first, which comes to the same. The new file starts with the file \
         header and the definitions that the records need, so that it can be read by itself. Remarks (GGSComment) stand before \
         the first and behind the last record, unless NOCOMMENT is given or SAVEFILECOMMENT is OFF; a file whose records are \
         encrypted takes none. TRANSIND gives every record this place in its transaction. OLDFORMAT, EXT, MEGABYTES and \
         COMMITTS are not done here.",
        verb::save,
    ),
    form(
        "SAVEFILECOMMENT",
        &[],
        "ON | OFF",
        ON_OFF,
        Topic::Files,
        "whether SAVE writes remarks",
        "",
        verb::save_file_comment,
    ),
    form(
        "CD",
        &["VOLUME", "VOL", "V"],
        "[directory]",
        &[],
        Topic::Files,
        "sets the directory from which file names count; without one, shows it",
        "",
        verb::volume,
    ),
    form("FILES", &["FI", "DIR"], "[directory]", &[], Topic::Files, "lists the files of a directory", "", verb::files),
    form(
        "SOURCEDEFS",
        &[],
        "file",
        &[],
        Topic::Files,
        "reads definitions of tables for files that hold none, or another product's",
        "The file is one that drover defgen or DEFGEN wrote. Give it before OPEN.",
        verb::source_definitions,
    ),
    form(
        "DECRYPT",
        &[],
        "ON [KEYNAME name] | OFF",
        &["ON", "OFF", "KEYNAME"],
        Topic::Files,
        "shows encrypted records in clear, by the master keys of the home's wallet",
        "The name of the key stands in the file, KEYNAME only makes sure of it.",
        verb::decrypt,
    ),
    form(
        "NEXT",
        &["N"],
        "[n]",
        &[],
        Topic::Reading,
        "shows the next record, or the next n, that pass the filters",
        "At the end of the file it shows nothing. Over bytes that are no records it goes on with the next that is one, and \
         says how many it left out.",
        verb::next,
    ),
    form("RECORD", &["REC"], "", &[], Topic::Reading, "shows the record again that was shown last", "", verb::record),
    form(
        "SKIP",
        &[],
        "[n] [FILTER]",
        &["FILTER"],
        Topic::Reading,
        "passes over n records; with FILTER only those count that pass the filters",
        "",
        verb::skip,
    ),
    form("DUMP", &[], "n", &[], Topic::Reading, "shows the next n bytes of the file", "", verb::dump),
    form(
        "SCANFORHEADER",
        &["SFH"],
        "[PREV]",
        &["PREV"],
        Topic::Searching,
        "goes to the next, or the previous, place where a whole record stands",
        "The way on behind damage, and when POSITION did not hit the start of a record.",
        verb::scan_for_header,
    ),
    form(
        "SCANFORTYPE",
        &["SFT"],
        "name | number [, file]",
        &[],
        Topic::Searching,
        "looks for the next record of a type",
        "",
        verb::scan_for_type,
    ),
    form(
        "SCANFORRBA",
        &["SFR"],
        "rba [, file]",
        &[],
        Topic::Searching,
        "looks for the next record with this AuditRBA",
        "",
        verb::scan_for_rba,
    ),
    form(
        "SCANFORTIME",
        &["SFTS"],
        "time [, file]",
        &[],
        Topic::Searching,
        "looks for the next record from a time on",
        "",
        verb::scan_for_time,
    ),
    form(
        "SCANFORENDTRANS",
        &["SFET"],
        "",
        &[],
        Topic::Searching,
        "looks for the end of the transaction, and stands behind it",
        "",
        verb::scan_for_end,
    ),
    form(
        "SCANFORNEXTTRANS",
        &["SFNT"],
        "",
        &[],
        Topic::Searching,
        "looks for the first record of the next transaction",
        "",
        verb::scan_for_next_transaction,
    ),
    form(
        "SCANFORMETADATA",
        &["SFMD"],
        "[DDR | TDR] [index | NEXT]",
        &["DDR", "TDR", "NEXT"],
        Topic::Searching,
        "looks for the next definition, or for one by its number",
        "With a number the file is searched from its start.",
        verb::scan_for_metadata,
    ),
    form(
        "SCANSCROLLING",
        &[],
        "ON | OFF",
        ON_OFF,
        Topic::Searching,
        "whether long searches show on one line how far they are",
        "On a terminal only.",
        verb::scan_scrolling,
    ),
    form(
        "NOTIFY",
        &[],
        "n",
        &[],
        Topic::Searching,
        "after how many records long searches show how far they are",
        "",
        verb::notify,
    ),
    form("GHDR", &[], "ON | OFF", ON_OFF, Topic::Display, "shows the fields of record headers", "", verb::ghdr),
    form(
        "DETAIL",
        &[],
        "ON | OFF | DATA",
        &["ON", "OFF", "DATA"],
        Topic::Display,
        "lists the columns of changes; with DATA also their bytes",
        "",
        verb::detail,
    ),
    form(
        "COLUMNDATA",
        &[],
        "ON | OFF",
        ON_OFF,
        Topic::Display,
        "as DETAIL DATA: shows the bytes of columns",
        "",
        verb::column_data,
    ),
    form(
        "RECLEN",
        &[],
        "n",
        &[],
        Topic::Display,
        "how many bytes of a record's data are shown, 140 by default",
        "",
        verb::record_length,
    ),
    form(
        "FILEHEADER",
        &[],
        "ON | OFF | DETAIL",
        DEPTHS,
        Topic::Display,
        "shows the file header, with DETAIL token by token",
        "It is the record at byte 0: POS 0, then NEXT.",
        verb::file_header,
    ),
    form(
        "HEADERTOKEN",
        &[],
        "ON | OFF | DETAIL",
        DEPTHS,
        Topic::Display,
        "shows the tokens that records are made of, with DETAIL the bytes of their headers",
        "",
        verb::header_token,
    ),
    form(
        "GGSTOKEN",
        &[],
        "ON | OFF | DETAIL",
        DEPTHS,
        Topic::Display,
        "shows what travels with records: the transaction's name and the like",
        "",
        verb::ggs_token,
    ),
    form(
        "USERTOKEN",
        &[],
        "ON | OFF | DETAIL",
        DEPTHS,
        Topic::Display,
        "shows names and lengths of the user's tokens, with DETAIL their values",
        "",
        verb::user_token,
    ),
    form(
        "METADATA",
        &[],
        "DETAIL | DEFGENFORMAT | SQLFORMAT | DDLFORMAT",
        &["DETAIL", "DEFGENFORMAT", "SQLFORMAT", "DDLFORMAT"],
        Topic::Display,
        "how definitions of tables are shown",
        "DEFGENFORMAT as in a definitions file, SQLFORMAT as names and types, DDLFORMAT as CREATE TABLE.",
        verb::metadata,
    ),
    form(
        "TIMEOFFSET",
        &[],
        "LOCAL | GMT | GMT +/-hh[:mm]",
        &["LOCAL", "GMT"],
        Topic::Display,
        "the time zone in which times are shown and read",
        "",
        verb::time_offset,
    ),
    form("ASCIIDATA", &[], "", &[], Topic::Display, "shows data as ASCII", "", verb::ascii_data),
    form("EBCDICDATA", &[], "", &[], Topic::Display, "shows data as EBCDIC", "", verb::ebcdic_data),
    form("ASCIIHEADER", &[], "", &[], Topic::Display, "shows headers as ASCII", "", verb::ascii_header),
    form("EBCDICHEADER", &[], "", &[], Topic::Display, "shows headers as EBCDIC", "", verb::ebcdic_header),
    form("ASCIIDUMP", &[], "", &[], Topic::Display, "shows DUMP as ASCII", "", verb::ascii_dump),
    form("EBCDICDUMP", &[], "", &[], Topic::Display, "shows DUMP as EBCDIC", "", verb::ebcdic_dump),
    form(
        "FILTER",
        &[],
        "[INCLUDE | EXCLUDE] option [comparison] value | ON | OFF | CLEAR {n | ALL} | [INCLUDE | EXCLUDE] MATCH ANY | ALL | SHOW",
        &[
            "INCLUDE",
            "EXCLUDE",
            "MATCH",
            "ANY",
            "ALL",
            "SHOW",
            "CLEAR",
            "ON",
            "OFF",
            "ENABLE",
            "DISABLE",
            "RECTYPE",
            "IOTYPE",
            "STRING",
            "BOTH",
            "HEX",
            "FILENAME",
            "ANSINAME",
            "TRANSID",
            "PROCESS",
            "INT16",
            "INT32",
            "INT64",
            "STARTTIME",
            "ENDTIME",
            "SYSKEY",
            "SYSKEYLEN",
            "TRANSIND",
            "UNDOFLAG",
            "RECLEN",
            "RBA",
            "AUDITRBA",
            "CSN",
            "LOGCSN",
            "GGSTOKEN",
            "USERTOKEN",
        ],
        Topic::Filters,
        "which records NEXT shows, COUNT counts and SAVE saves",
        "Each FILTER has one option; several stand on one line with `;` between them. Options: RECTYPE (or IOTYPE) type[,…]; \
         STRING [BOTH] /text/ [first:last]; HEX \"bytes\" [first:last]; INT16, INT32, INT64 n [first:last]; FILENAME name[,…]; \
         ANSINAME name; TRANSID id; PROCESS group; STARTTIME t; ENDTIME t; SYSKEY n; SYSKEYLEN n; TRANSIND FIRST | MIDDLE | END \
         | ONLY; UNDOFLAG n; RECLEN n; RBA n; AUDITRBA n; CSN csn (or LOGCSN); GGSTOKEN name [value]; USERTOKEN name [value]; \
         @GETENV (\"section\", \"name\") value. Comparisons: = (== EQ), <> (!= NE), < (LT), > (GT), <= (LE), >= (GE); equal \
         without one. Names may hold * and ?. BOTH looks for the text in EBCDIC as well. A record passes when it fulfils all \
         of INCLUDE (or one, with MATCH ANY) and none of EXCLUDE (or not all, with EXCLUDE MATCH ALL). FILTER alone shows \
         the state.",
        verb::filter,
    ),
    form(
        "COUNT",
        &[],
        "[, DETAIL] [, START[TIME] t] [, END[TIME] t] [, INT[ERVAL] minutes] [, LOG wildcard] [, FILE wildcard]",
        &["DETAIL", "STARTTIME", "ENDTIME", "INTERVAL", "LOG", "FILE"],
        Topic::Statistics,
        "counts records and bytes from the position to the end of the file",
        "DETAIL adds a count for each table, INTERVAL one for each span of time, LOG counts all files whose names fit, FILE only \
         tables whose names fit. Filters hold. The position stays where it is.",
        verb::count,
    ),
    form(
        "TRANSHIST",
        &[],
        "n",
        &[],
        Topic::Statistics,
        "how many of the largest transactions COUNT lists, at most 200; 0, the default, for none",
        "",
        verb::transaction_history,
    ),
    form(
        "TRANSRECLIMIT",
        &[],
        "n",
        &[],
        Topic::Statistics,
        "from how many records on a transaction is large, 100 by default",
        "",
        verb::transaction_records,
    ),
    form(
        "TRANSBYTELIMIT",
        &[],
        "n",
        &[],
        Topic::Statistics,
        "from how many bytes on a transaction is large, 100000 by default",
        "",
        verb::transaction_bytes,
    ),
    form(
        "SHOW",
        &["SH", "SHO"],
        "ENV | FILTER | OPEN | RECTYPE | TIME",
        &["ENV", "FILTER", "OPEN", "RECTYPE", "TIME"],
        Topic::Session,
        "shows the settings, the filters, the open file, the record types, or the time",
        "",
        verb::show,
    ),
    form("ENV", &[], "", &[], Topic::Session, "shows the settings, as SHOW ENV", "", verb::show_environment),
    form("TIME", &[], "", &[], Topic::Session, "shows the time, as SHOW TIME", "", verb::show_time),
    form(
        "LOG",
        &[],
        "file | STOP [OUT]",
        &["STOP"],
        Topic::Session,
        "writes everything that is shown into a file as well, until LOG STOP",
        "A file that is there is written on at its end.",
        verb::log,
    ),
    form("WRITELOG", &[], "text", &[], Topic::Session, "writes a text into the log file", "", verb::write_log),
    form("OBEY", &[], "file", &[], Topic::Session, "runs the commands of a file", "", verb::obey),
    form("HISTORY", &["HIST"], "[n]", &[], Topic::Session, "lists the last n commands", "", verb::history),
    form(
        "FC",
        &[],
        "[n | -n | text]",
        &[],
        Topic::Session,
        "runs a command of the history again: the last one, by number, or the last that begins with a text",
        "To change it first, use the arrow keys.",
        verb::again,
    ),
    form(
        "X",
        &["SHELL"],
        "program",
        &[],
        Topic::Session,
        "runs a program of the operating system",
        "",
        verb::run_program,
    ),
    form(
        "INTERPRETTIMESTAMP",
        &[],
        "v",
        &[],
        Topic::Session,
        "the time that a 64-bit time stamp of a trail stands for",
        "",
        verb::interpret_time_stamp,
    ),
    form(
        "INTERPRETINTERVAL",
        &[],
        "v",
        &[],
        Topic::Session,
        "the length of time that a number of microseconds stands for",
        "",
        verb::interpret_interval,
    ),
    form(
        "COMPUTETIMESTAMP",
        &[],
        "time",
        &[],
        Topic::Session,
        "the 64-bit time stamp of a trail for a time",
        "",
        verb::compute_time_stamp,
    ),
    form("CTIME", &[], "v", &[], Topic::Session, "the time that seconds since 1970 stand for", "", verb::c_time),
    form(
        "FLOAT",
        &[],
        "v [FORMAT spec]",
        &["FORMAT"],
        Topic::Session,
        "the number that eight bytes in hexadecimal, or a text, stand for",
        "A spec is %w.df, %w.de or %w.dg.",
        verb::float,
    ),
    form(
        "HELP",
        &["?"],
        "[command | topic]",
        &[],
        Topic::Session,
        "lists the commands, or explains one",
        "",
        verb::help,
    ),
    form("EXIT", &["QUIT", "E", "Q"], "", &[], Topic::Session, "ends Logdump", "", verb::exit),
    refused("TRAILFORMAT", &[], "files from before release 6.0 are neither read nor written"),
    refused("ENCRYPT", &[], "let the Extract encrypt the trail with ENCRYPTTRAIL"),
    refused("DATAFILE", &[], "data files of NonStop are not read"),
    refused("GGSAUDITREAD", &[], "audit trails of NonStop are not read"),
    refused("PRINTMXCOLUMNINFO", &[], "SQL/MX of NonStop is not known"),
    refused("TMFBEFOREIMAGE", &[], "TMF of NonStop is not known"),
    refused("TMFGETRECADDR", &[], "TMF of NonStop is not known"),
    refused("TMFIGNORERECCOUNT", &[], "TMF of NonStop is not known"),
    refused("CALCTLFKEY", &[], "TLF and PTLF of NonStop are not known"),
    refused("HASHSTATS", &[], "no hash table is kept, so there are no statistics of one; use COUNT, DETAIL"),
    refused("HASHCLEAR", &[], "no hash table is kept"),
    refused("BULKIOSTATS", &[], "files are read in large blocks always, without statistics"),
    refused("BIO", &[], "files are read in large blocks always"),
    refused("ESBLOCK", &[], "Enscribe of NonStop is not known"),
    refused("DEBUG", &[], "there is no debugger inside; drover trail verify looks for damage"),
];

/// The command that a word names: its name, an alias, or a beginning of three letters that no other command has.
pub fn find(word: &str) -> Option<&'static Form> {
    let word = word.to_ascii_uppercase();
    let whole = COMMANDS.iter().find(|form| form.name == word || form.aliases.contains(&word.as_str()));
    whole.or_else(|| {
        let mut beginning = COMMANDS.iter().filter(|form| word.len() >= 3 && form.name.starts_with(&word));
        beginning.next().filter(|_| beginning.next().is_none())
    })
}

/// All names of commands, for suggestions.
pub fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().flat_map(|form| std::iter::once(form.name).chain(form.aliases.iter().copied()))
}

/// What may stand where `line` ends: names of commands, or words of the one that is being written, and the byte where the word
/// begins.
pub fn complete(line: &str) -> (usize, Vec<&'static str>) {
    let start = line.rfind([' ', '\t', ';', ',']).map_or(0, |place| place + 1);
    let (before, word) = line.split_at(start);
    let command = before.rsplit(';').next().unwrap_or_default().trim_start();
    let upper = word.to_ascii_uppercase();
    let first = command.split([' ', '\t', ',']).next().unwrap_or_default();
    let words: Vec<&'static str> = match find(first) {
        _ if first.is_empty() => {
            COMMANDS.iter().filter(|form| form.topic != Topic::Refused).map(|form| form.name).collect()
        }
        Some(form) if form.name == "HELP" => names().collect(),
        Some(form) => form.words.to_vec(),
        None => Vec::new(),
    };
    (start, words.into_iter().filter(|candidate| candidate.starts_with(&upper)).collect())
}

/// The help of all commands, or of one, or of a topic.
pub fn help(about: Option<&str>) -> Result<String, String> {
    let Some(about) = about else {
        let mut text = String::new();
        for topic in Topic::ALL {
            text += &format!("{}\n", topic.title());
            text.extend(COMMANDS.iter().filter(|form| form.topic == topic).map(line));
        }
        return Ok(text + "HELP command explains one of them.\n");
    };
    let Some(form) = find(about) else {
        let hint = parameter::nearest(about, names()).map(|name| format!(", did you mean {name}?"));
        return Err(format!("there is no command {about}{}", hint.unwrap_or_default()));
    };
    let aliases = match form.aliases {
        [] => String::new(),
        aliases => format!(" [{}]", aliases.join(", ")),
    };
    let mut text = format!("{}{aliases} {}\n  {}\n", form.name, form.usage, form.summary);
    if !form.details.is_empty() {
        text += &format!("  {}\n", form.details);
    }
    Ok(text)
}

fn line(form: &Form) -> String {
    let names: Vec<&str> = std::iter::once(form.name).chain(form.aliases.iter().copied()).collect();
    format!("  {:<28} {}\n", names.join(", "), form.summary)
}

/// The text of `docs/reference/logdump.md`.
pub fn reference() -> String {
    let mut page = "# Logdump commands\n\n\
        `drover logdump` reads commands from a terminal or from standard input. This page is generated from the table of commands\n\
        that the program itself uses. How to work with them stands in the [guide](../guides/logdump.md).\n\n\
        Several commands may stand on one line with `;` between them. A command may be cut short to three letters where no other\n\
        begins with them. Lines that begin with `--` are remarks.\n"
        .to_owned();
    for topic in Topic::ALL {
        page += &format!("\n## {}\n", topic.title());
        for form in COMMANDS.iter().filter(|form| form.topic == topic) {
            let aliases = match form.aliases {
                [] => String::new(),
                aliases => format!(" ({})", aliases.join(", ")),
            };
            page += &format!("\n### {}{aliases}\n\n", form.name);
            if !form.usage.is_empty() {
                page += &format!("```\n{} {}\n```\n\n", form.name, form.usage);
            }
            page += &format!("{}.\n", capitalised(form.summary));
            if !form.details.is_empty() {
                page += &format!("\n{}\n", wrapped(form.details));
            }
        }
    }
    page + "\n## What `@GETENV` knows\n\n| section | name |\n|---|---|\n"
        + &crate::environment::ITEMS
            .iter()
            .map(|(section, name)| format!("| {section} | {name} |\n"))
            .collect::<String>()
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// The text in lines of a page's width.
fn wrapped(text: &str) -> String {
    let mut page = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        if width > 0 && width + word.len() >= 130 {
            page.push('\n');
            width = 0;
        } else if width > 0 {
            page.push(' ');
            width += 1;
        }
        page += word;
        width += word.len();
    }
    page
}
