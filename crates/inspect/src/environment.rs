//! What `@GETENV` says of a record: GGHEADER, GGFILEHEADER, RECORD, TRANSACTION, and the elements of a transaction by name.

use crate::definitions::Definitions;
use change::Timestamp;
use std::borrow::Cow;
use std::fmt;
use trail::format::bytes::{Order, from_julian_micros};
use trail::format::header::FileHeader;
use trail::format::layout::RecoveryMode;
use trail::format::record::{RecordView, operation, transaction};

/// A record with everything that filters and `@GETENV` ask for.
pub struct RecordEnvironment<'a> {
    /// The record, taken apart.
    pub view: &'a RecordView<'a>,
    /// Where it stands.
    pub rba: u64,
    /// The file's byte order.
    pub order: Order,
    /// Its data in clear, if it can be had.
    pub data: Option<&'a [u8]>,
    /// Its user tokens in clear.
    pub user: &'a [u8],
    /// The commit sequence number of its transaction.
    pub csn: Option<&'a [u8]>,
    /// The identifier of its transaction.
    pub transaction_id: Option<&'a [u8]>,
    /// What the file's first record says.
    pub header: Option<&'a FileHeader>,
    /// What the file has defined.
    pub definitions: &'a Definitions,
}

/// Something that `@GETENV` can be asked for: a section and a name in it, both in upper case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    section: &'static str,
    name: &'static str,
}

impl fmt::Display for Item {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.section == ELEMENT {
            return formatter.write_str(self.name);
        }
        write!(formatter, "@GETENV (\"{}\", \"{}\")", self.section, self.name)
    }
}

/// The section of what is named without `@GETENV`.
const ELEMENT: &str = "ELEMENT";

/// Every item: section, name.
pub const ITEMS: &[(&str, &str)] = &[
    ("GGHEADER", "BEFOREAFTERINDICATOR"),
    ("GGHEADER", "COMMITTIMESTAMP"),
    ("GGHEADER", "LOGPOSITION"),
    ("GGHEADER", "LOGRBA"),
    ("GGHEADER", "OBJECTNAME"),
    ("GGHEADER", "TABLENAME"),
    ("GGHEADER", "OPTYPE"),
    ("GGHEADER", "RECORDLENGTH"),
    ("GGHEADER", "TRANSACTIONINDICATOR"),
    ("GGFILEHEADER", "COMPATIBILITY"),
    ("GGFILEHEADER", "CHARSET"),
    ("GGFILEHEADER", "CREATETIMESTAMP"),
    ("GGFILEHEADER", "FILENAME"),
    ("GGFILEHEADER", "FILETYPE"),
    ("GGFILEHEADER", "FILESEQNO"),
    ("GGFILEHEADER", "FILESIZE"),
    ("GGFILEHEADER", "FIRSTRECCSN"),
    ("GGFILEHEADER", "LASTRECCSN"),
    ("GGFILEHEADER", "FIRSTRECIOTIME"),
    ("GGFILEHEADER", "LASTRECIOTIME"),
    ("GGFILEHEADER", "URI"),
    ("GGFILEHEADER", "URIHISTORY"),
    ("GGFILEHEADER", "GROUPNAME"),
    ("GGFILEHEADER", "GGMAJORVERSION"),
    ("GGFILEHEADER", "GGMINORVERSION"),
    ("GGFILEHEADER", "GGMAINTENANCELEVEL"),
    ("GGFILEHEADER", "GGBUGFIXLEVEL"),
    ("GGFILEHEADER", "GGBUILDNUMBER"),
    ("GGFILEHEADER", "GGVERSIONSTRING"),
    ("GGFILEHEADER", "HOSTNAME"),
    ("GGFILEHEADER", "OSTYPE"),
    ("GGFILEHEADER", "OSRELEASE"),
    ("GGFILEHEADER", "OSVERSION"),
    ("GGFILEHEADER", "HARDWARETYPE"),
    ("GGFILEHEADER", "DBNAME"),
    ("GGFILEHEADER", "DBINSTANCE"),
    ("GGFILEHEADER", "DBUNIQUENAME"),
    ("GGFILEHEADER", "DBTYPE"),
    ("GGFILEHEADER", "DBCHARSET"),
    ("GGFILEHEADER", "DBMAJORVERSION"),
    ("GGFILEHEADER", "DBMINORVERSION"),
    ("GGFILEHEADER", "DBVERSIONSTRING"),
    ("GGFILEHEADER", "DBCLIENTVERSIONSTRING"),
    ("GGFILEHEADER", "RECOVERYMODE"),
    ("RECORD", "FILESEQNO"),
    ("RECORD", "FILERBA"),
    ("RECORD", "TIMESTAMP"),
    ("TRANSACTION", "CSN"),
    ("TRANSACTION", "XID"),
    ("TRANSACTION", "TRANSACTIONID"),
    ("TRANSACTION", "TIMESTAMP"),
    (ELEMENT, "GGS_TRANS_TIMESTAMP"),
    (ELEMENT, "GGS_TRANS_RBA"),
    (ELEMENT, "GGS_OP_TYPE"),
    (ELEMENT, "GGS_BEFORE_AFTER_IND"),
];

impl Item {
    /// Whether it tells the operation.
    pub fn is_operation(&self) -> bool {
        matches!(self.name, "OPTYPE" | "GGS_OP_TYPE")
    }

    /// The item by section and name, in any case.
    pub fn find(section: &str, name: &str) -> Option<Item> {
        let found = ITEMS.iter().find(|(known_section, known)| {
            known_section.eq_ignore_ascii_case(section) && known.eq_ignore_ascii_case(name)
        });
        found.map(|(section, name)| Item { section, name })
    }

    /// Reads `@GETENV ("SECTION", "NAME")`, or the name of an element such as GGS_OP_TYPE, and returns what follows.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn parse_call(text: &str) -> Result<(Item, &str), String> {
        let text = text.trim_start();
        let is_call = text.get(..7).is_some_and(|head| head.eq_ignore_ascii_case("@GETENV"));
        if !is_call {
            let end = text.find(|end: char| !end.is_ascii_alphanumeric() && end != '_').unwrap_or(text.len());
            let (name, rest) = text.split_at(end);
            let item = Item::find(ELEMENT, name).ok_or_else(|| format!("{name} is nothing that can be asked for"))?;
            return Ok((item, rest));
        }
        const FORM: &str = "@GETENV has the form @GETENV (\"GGHEADER\", \"OPTYPE\")";
        let inside = text[7..].trim_start().strip_prefix('(').ok_or(FORM)?;
        let (arguments, rest) = inside.split_once(')').ok_or(FORM)?;
        let (section, name) = arguments.split_once(',').ok_or(FORM)?;
        let clean = |text: &str| text.trim().trim_matches(['"', '\'']).to_ascii_uppercase();
        let (section, name) = (clean(section), clean(name));
        let item = Item::find(&section, &name).ok_or_else(|| {
            let names = ITEMS.iter().filter(|(known, _)| *known == section).map(|(_, name)| *name);
            let hint = parameter::nearest(&name, names).map(|name| format!(", did you mean {name}?"));
            format!("@GETENV knows no {section} {name}{}", hint.unwrap_or_default())
        })?;
        Ok((item, rest))
    }
}

impl<'a> RecordEnvironment<'a> {
    /// The name of the table that the record is about; empty for a record about none.
    pub fn table_name(&self) -> Cow<'a, str> {
        self.definitions.name_of(&self.view.object)
    }

    /// The value of an item; `None` where the record or the file does not tell it.
    pub fn value(&self, item: &Item) -> Option<String> {
        match item.section {
            "GGHEADER" => self.of_header(item.name),
            "GGFILEHEADER" => self.of_file(item.name),
            "RECORD" => match item.name {
                "FILESEQNO" => self.header.map(|header| header.sequence.to_string()),
                "FILERBA" => Some(self.rba.to_string()),
                _ => Some(instant(self.view.header.time)),
            },
            "TRANSACTION" => {
                let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                match item.name {
                    "CSN" => text(self.csn),
                    "TIMESTAMP" => Some(instant(self.view.header.time)),
                    _ => text(self.transaction_id),
                }
            }
            _ => match item.name {
                "GGS_TRANS_TIMESTAMP" => Some(instant(self.view.header.time)),
                "GGS_TRANS_RBA" => Some(self.view.header.audit_offset.to_string()),
                "GGS_OP_TYPE" => self.of_header("OPTYPE"),
                _ => self.of_header("BEFOREAFTERINDICATOR"),
            },
        }
    }

    fn of_header(&self, name: &str) -> Option<String> {
        let header = &self.view.header;
        Some(match name {
            "BEFOREAFTERINDICATOR" => if header.before_after == b'B' { "BEFORE" } else { "AFTER" }.to_owned(),
            "COMMITTIMESTAMP" => instant(header.time),
            "LOGPOSITION" => header.audit_position.to_string(),
            "LOGRBA" => header.audit_offset.to_string(),
            "OBJECTNAME" | "TABLENAME" => self.table_name().into_owned(),
            "OPTYPE" => operation_type(header.operation).to_owned(),
            "RECORDLENGTH" => header.data_length.to_string(),
            _ => match header.transaction {
                transaction::FIRST => "BEGIN",
                transaction::MIDDLE => "MIDDLE",
                transaction::LAST => "END",
                _ => "WHOLE",
            }
            .to_owned(),
        })
    }

    fn of_file(&self, name: &str) -> Option<String> {
        let FileHeader { producer, source, completion, .. } = self.header?;
        let header = self.header?;
        let span = completion.as_ref().and_then(|completion| completion.span.as_ref());
        Some(match name {
            "COMPATIBILITY" => header.level.to_string(),
            "CHARSET" => header.charset.to_string(),
            "CREATETIMESTAMP" => header.created.to_string(),
            "FILENAME" => header.file_name.clone(),
            "FILETYPE" => u8::from(header.multi_part).to_string(),
            "FILESEQNO" => header.sequence.to_string(),
            "FILESIZE" => completion.as_ref()?.file_size.to_string(),
            "FIRSTRECCSN" => span?.first_csn.to_string(),
            "LASTRECCSN" => span?.last_csn.to_string(),
            "FIRSTRECIOTIME" => span?.first_time.to_string(),
            "LASTRECIOTIME" => span?.last_time.to_string(),
            "URI" => header.uri.clone(),
            "URIHISTORY" => header.uri_history.join(" "),
            "GROUPNAME" => producer.group.clone(),
            "GGMAJORVERSION" => number_in(&producer.version, 0),
            "GGMINORVERSION" => number_in(&producer.version, 1),
            "GGMAINTENANCELEVEL" => number_in(&producer.version, 2),
            "GGBUGFIXLEVEL" => number_in(&producer.version, 3),
            "GGBUILDNUMBER" => number_in(&producer.version, 4),
            "DBMAJORVERSION" => number_in(&source.version, 0),
            "DBMINORVERSION" => number_in(&source.version, 1),
            "GGVERSIONSTRING" => producer.version.clone(),
            "HOSTNAME" => producer.host.clone(),
            "OSTYPE" => producer.machine.system.clone(),
            "OSRELEASE" => producer.machine.release.clone(),
            "OSVERSION" => producer.machine.version.clone(),
            "HARDWARETYPE" => producer.machine.hardware.clone(),
            "DBNAME" => source.name.clone(),
            "DBINSTANCE" => source.instance.clone(),
            "DBUNIQUENAME" => source.unique_name.clone(),
            "DBTYPE" => source.product.to_uppercase(),
            "DBCHARSET" => source.charset.to_string(),
            "DBVERSIONSTRING" => source.version.clone(),
            "DBCLIENTVERSIONSTRING" => source.client_version.clone(),
            _ => u8::from(header.recovery == RecoveryMode::Append).to_string(),
        })
    }
}

/// A number of a version such as `19.1.0` by its place; 0 where there is none.
fn number_in(version: &str, place: usize) -> String {
    let mut numbers = version.split(|character: char| !character.is_ascii_digit()).filter(|digits| !digits.is_empty());
    numbers.nth(place).unwrap_or("0").to_owned()
}

fn instant(julian: u64) -> String {
    let instant: Timestamp = from_julian_micros(julian);
    instant.to_string()
}

/// The name that `@GETENV ("GGHEADER", "OPTYPE")` gives to an operation.
pub fn operation_type(number: u8) -> &'static str {
    match number {
        operation::INSERT => "INSERT",
        operation::DELETE => "DELETE",
        operation::FULL_UPDATE => "UPDATE",
        operation::UPDATE => "SQL COMPUPDATE",
        11 => "ENSCRIBE COMPUPDATE",
        operation::KEY_UPDATE | operation::KEY_UPDATE_WIDE => "PK UPDATE",
        operation::UNIFIED_UPDATE => "UNIFIED UPDATE",
        operation::UNIFIED_KEY_UPDATE => "UNIFIED PK UPDATE",
        operation::TRUNCATE => "TRUNCATE",
        operation::DDL => "DDL",
        other => operation::name(other),
    }
}

/// The commit that a record belongs to, carried from the records before it: a transaction may name itself only once.
#[derive(Clone, Debug, Default)]
pub struct CarriedCommit {
    csn: Vec<u8>,
    transaction_id: Vec<u8>,
    is_known: bool,
}

impl CarriedCommit {
    /// Takes note of a record.
    #[inline]
    pub fn see(&mut self, view: &RecordView<'_>) {
        if let Some(csn) = view.csn {
            if self.is_known && self.csn == csn && self.transaction_id == view.transaction_id.unwrap_or_default() {
                return;
            }
            self.csn.clear();
            self.csn.extend_from_slice(csn);
            self.transaction_id.clear();
            self.transaction_id.extend_from_slice(view.transaction_id.unwrap_or_default());
            self.is_known = true;
        } else if matches!(view.header.transaction, transaction::FIRST | transaction::ONLY)
            && view.header.operation != operation::METADATA
        {
            self.is_known = false;
        }
    }

    /// Forgets everything, because reading goes on elsewhere.
    pub fn forget(&mut self) {
        self.is_known = false;
    }

    /// Commit sequence number and transaction identifier of a record that was seen last.
    pub fn of<'a>(&'a self, view: &RecordView<'a>) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
        if view.csn.is_some() {
            return (view.csn, view.transaction_id);
        }
        let is_inside = self.is_known && is_change(view);
        if is_inside { (Some(&self.csn), Some(&self.transaction_id)) } else { (None, None) }
    }
}

/// Whether a record is one of a transaction.
#[inline]
pub fn is_change(view: &RecordView<'_>) -> bool {
    let is_beside = match view.header.operation {
        operation::METADATA | operation::RESTART_ABEND | operation::RESTART_OK | operation::COMMENT => true,
        // A part of a definition.
        operation::FRAGMENT => view.header.origin != ORIGIN_OF_CHANGES,
        _ => false,
    };
    view.csn.is_some() || !is_beside
}

/// OrigNode of changes.
const ORIGIN_OF_CHANGES: u8 = 255;
