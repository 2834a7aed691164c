//! Going through the files of a trail and picking changes out.

use super::files::{TrailFiles, Work};
use super::select::Selection;
use crate::error::Error;
use crate::session::Progress;
use trail::{Entry, FileReader, Record};

/// Records between two signs of life.
const NOTIFY: u64 = 1 << 18;

/// What is done with an entry.
type Take<'a> = dyn FnMut(&mut Work<'_>, &Entry) -> Result<(), Error> + 'a;

/// Hands every change that is asked for to `take`, and with it every file header, and every restart marker.
///
/// # Errors
/// [`Error`], and those of `take`.
pub fn pick(
    files: &TrailFiles,
    selection: &mut Selection,
    work: &mut Work<'_>,
    take: &mut Take<'_>,
) -> Result<(), Error> {
    let mut records = 0;
    for (name, sequence) in &files.files {
        let limit = files.limit(*sequence);
        if limit == Some(0) {
            continue;
        }
        let (definitions, keys) = (&work.given.definitions, work.given.keys.clone());
        let mut reader = FileReader::open(files.storage.clone(), name, limit, definitions, keys)?;
        let mut shown = false;
        loop {
            let length = reader.limit();
            let found = reader.next_where(&mut |view, order, rba| {
                records += 1;
                if records % NOTIFY == 0 {
                    shown = true;
                    // What was found does not wait for more to fill a buffer.
                    _ = work.output.flush();
                    (work.progress)(Progress { records, rba, length, is_over: false });
                }
                selection.may_hold(view, order, rba)
            })?;
            let Some(entry) = found else { break };
            if let Record::Header(header) = &entry.record {
                selection.start_file(header);
            }
            let is_wanted = match selection.holds(&entry.record) {
                Some(holds) => holds,
                None => matches!(entry.record, Record::Header(_) | Record::Restart { .. }),
            };
            if is_wanted {
                take(work, &entry)?;
            }
        }
        if shown {
            (work.progress)(Progress { records, rba: reader.limit(), length: reader.limit(), is_over: true });
        }
    }
    Ok(())
}
