//! What a running Extract answers.

use super::Run;
use super::extract::of_source;
use crate::place::Place;
use crate::wire;
use capture::transactions::{OpenState, asked_for, merge};
use capture::{Extract, Force, LeaveOut, Phase, bounded};
use change::{LogPosition, TransactionId};
use database::OpenWorkView;
use parameter::ExtractParameters;
use process::channel::{Answer, OpenTransactionsRequest, Pending, Request};
use process::{Code, Failure, clock};

impl Run {
    /// Answers what was asked since the last step.
    ///
    /// # Errors
    /// Failures of what was asked for, which end this attempt.
    pub(super) fn answer_extract(
        &mut self,
        extract: &mut Extract,
        parameters: &ExtractParameters,
    ) -> Result<(), Box<Failure>> {
        self.commands.parts.look(clock::now(), extract.statistics());
        while let Some(pending) = self.commands.next() {
            self.answer_one(extract, parameters, pending)?;
        }
        Ok(())
    }

    fn answer_one(
        &mut self,
        extract: &mut Extract,
        parameters: &ExtractParameters,
        pending: Pending,
    ) -> Result<(), Box<Failure>> {
        let trail = parameters.trails.first().map_or("", String::as_str);
        let request = pending.request().clone();
        let answer = match &request {
            Request::Status => Answer::told(self.status_of_extract(extract, trail)),
            Request::LogEnd => Answer::told([if extract.progress().is_at_end { "YES." } else { "NO." }]),
            Request::Lag => {
                let progress = extract.progress();
                self.lag(progress.lag(clock::now()), progress.is_at_end)
            }
            Request::RollOver => match extract.roll_over().map_err(|error| of_source(&error, parameters))? {
                Some(position) => Answer::told([format!(
                    "Request processed. Trail {trail} goes on in file {:09}.",
                    position.sequence
                )]),
                None => Answer::refused_but("a transaction is being written", "ask again in a moment"),
            },
            Request::OpenTransactions(request) => {
                self.show_transactions(extract, parameters, request.clone(), pending);
                return Ok(());
            }
            Request::SkipTransaction { transaction } => {
                self.skip_transaction(extract, parameters, &TransactionId::new(transaction.clone()))?
            }
            Request::ForceTransaction { transaction } => {
                let answer = self.force_transaction(extract, parameters, &TransactionId::new(transaction.clone()))?;
                if let Answer::Refused { what, .. } = &answer {
                    self.journal.say(Code::ForceRefused, format!("FORCETRANS {transaction} refused: {what}"));
                }
                answer
            }
            Request::BoundedRecovery(request) => {
                let answer = bounded::answer(extract.open_mut(), request, clock::now());
                if !matches!(request, process::channel::BoundedRequest::Status) && matches!(answer, Answer::Done { .. })
                {
                    self.journal.say(Code::Notice, format!("Bounded Recovery was told: {request:?}"));
                }
                answer
            }
            _ => {
                let heading = format!("Output to {trail}:");
                let statistics = extract.statistics().clone();
                self.answer_of_group(&request, &statistics, &heading).unwrap_or_else(|| self.unfit())
            }
        };
        pending.answer(&answer);
        Ok(())
    }

    fn status_of_extract(&self, extract: &Extract, trail: &str) -> Vec<String> {
        let progress = extract.progress();
        let doing = match extract.phase() {
            Phase::Rereading => "In recovery[1]: Reading again what was open at the last checkpoint",
            Phase::Skipping => "In recovery[2]: Leaving out what the trail holds",
            Phase::Complete if progress.is_at_end => "Recovery complete: At EOF",
            Phase::Complete => "Recovery complete: Processing data",
        };
        let time = progress.written.as_ref().map_or("Not Available".to_owned(), |commit| commit.time.to_string());
        let mut lines = vec![
            self.title(),
            format!("  Current status: {doing}"),
            String::new(),
            "Current read position:".to_owned(),
        ];
        lines.extend(place_lines(&progress.position, self.log_file_bytes));
        lines.push(format!("Timestamp: {time}"));
        lines.extend([String::new(), "Current write position:".to_owned()]);
        lines.push(format!("Sequence #: {}", progress.trail.sequence));
        lines.push(format!("RBA: {}", progress.trail.rba));
        lines.push(format!("Extract Trail: {trail}"));
        lines.push(String::new());
        if let Some(open) = extract.open() {
            let (memory, _, _) = open.kept();
            let list = open.open_transactions();
            let spilled: u64 = list.iter().map(|open| open.spilled_bytes).sum();
            lines.push(format!(
                "Open transactions kept: {}, {memory} bytes in memory, {spilled} bytes spilled",
                list.len()
            ));
        }
        let total = extract.statistics().total();
        let seconds = clock::now().elapsed_since(extract.statistics().since()).as_secs().max(1);
        lines.push(format!(
            "Operations: {} read, {} written, {} filtered; {} transactions; {} a second since the start",
            total.read,
            total.written,
            total.filtered_total(),
            progress.transactions,
            total.read / seconds
        ));
        lines
    }

    /// SHOWTRANS. The database is asked by another thread: it may take its time.
    fn show_transactions(
        &self,
        extract: &Extract,
        parameters: &ExtractParameters,
        request: OpenTransactionsRequest,
        pending: Pending,
    ) {
        let kept = extract.open().map(|open| open.open_transactions()).unwrap_or_default();
        let (left_out, group, log_file_bytes) = (extract.left_out(), self.group.to_string(), self.log_file_bytes);
        let database = wire::open(self.home.path(), parameters.source.reveal());
        let show = move || {
            let work = database.and_then(|database| database.open_work());
            let note = work.as_ref().err().map(|error| format!("The source could not be asked: {error}"));
            let work = work.ok().flatten().map(|view| view.transactions);
            let now = clock::now();
            let shown = asked_for(merge(kept, work, &left_out), &request, now);
            let mut lines = super::transaction_lines::lines(&shown, &request, &group, (now, log_file_bytes));
            lines.extend(note);
            pending.answer(&Answer::told(lines));
        };
        // Without a thread the one who asks hears that there is no answer.
        let _ = std::thread::Builder::new().name("showtrans".to_owned()).spawn(show);
    }

    fn open_work(&self, parameters: &ExtractParameters) -> Result<Option<OpenWorkView>, database::Error> {
        wire::open(self.home.path(), parameters.source.reveal())?.open_work()
    }

    /// SKIPTRANS.
    fn skip_transaction(
        &mut self,
        extract: &mut Extract,
        parameters: &ExtractParameters,
        transaction: &TransactionId,
    ) -> Result<Answer, Box<Failure>> {
        let work = match self.open_work(parameters) {
            Ok(work) => work.map(|view| view.transactions),
            Err(error) => {
                return Ok(Answer::refused(format!(
                    "the source could not be asked which transactions are open: {error}"
                )));
            }
        };
        let kept = extract.open().map(|open| open.open_transactions()).unwrap_or_default();
        let merged = merge(kept, work, &extract.left_out());
        let list = format!("SEND EXTRACT {}, SHOWTRANS shows those that are", self.group);
        let Some(shown) = merged.iter().find(|shown| shown.transaction == *transaction) else {
            return Ok(Answer::refused_but(format!("transaction {transaction} is not open at the source"), list));
        };
        if shown.state == OpenState::LeftOut {
            return Ok(Answer::refused(format!("transaction {transaction} is to be left out already")));
        }
        let oldest = merged.iter().find(|shown| shown.state != OpenState::LeftOut);
        if let Some(oldest) = oldest.filter(|oldest| oldest.transaction != *transaction) {
            return Ok(Answer::refused_but(
                format!("transaction {transaction} is not the oldest one, that is {}", oldest.transaction),
                "skip or end the older ones first",
            ));
        }
        let items = shown.items();
        Ok(match extract.leave_out(transaction).map_err(|error| of_source(&error, parameters))? {
            LeaveOut::Noted | LeaveOut::NotedBefore => {
                let text = format!(
                    "SKIPTRANS: transaction {transaction} is left out when it commits; {items} changes of it were kept"
                );
                self.journal.say(Code::TransactionSkipped, text);
                Answer::told([format!("Request processed. Transaction {transaction} is left out when it commits.")])
            }
            LeaveOut::Committed => {
                Answer::refused(format!("transaction {transaction} has committed, and is being written"))
            }
            LeaveOut::NoRoom => Answer::refused("as many transactions are to be left out as a checkpoint has room for"),
        })
    }

    /// FORCETRANS.
    fn force_transaction(
        &mut self,
        extract: &mut Extract,
        parameters: &ExtractParameters,
        transaction: &TransactionId,
    ) -> Result<Answer, Box<Failure>> {
        Ok(match extract.force(transaction).map_err(|error| of_source(&error, parameters))? {
            Force::Written { csn, changes } => {
                let text = format!(
                    "FORCETRANS: what was kept of transaction {transaction}, {changes} changes, was written with CSN {csn} as if it \
                     had committed; what it does later is left out"
                );
                self.journal.say(Code::TransactionForced, text);
                Answer::told([format!(
                    "Request processed. {changes} changes of transaction {transaction} are written."
                )])
            }
            Force::NotKept => Answer::refused_but(
                format!("nothing is kept of transaction {transaction}, so that there is nothing to write"),
                "the source tells a small transaction when it commits: commit it at the source",
            ),
            Force::Busy => Answer::refused_but("another transaction is being written", "ask again in a moment"),
            Force::NoRoom => Answer::refused("as many transactions are to be left out as a checkpoint has room for"),
        })
    }

    /// Transactions to leave out that were rolled back meanwhile must not be remembered for ever: the source uses their names
    /// again. Asks the source which are open still.
    pub(super) fn look_for_ended(&mut self, extract: &Extract, parameters: &ExtractParameters) {
        let left_out = extract.left_out();
        let now = clock::now();
        if left_out.is_empty()
            || self.left_out_looked.is_some_and(|looked| now.elapsed_since(looked) < super::LEFT_OUT_LOOK)
        {
            return;
        }
        self.left_out_looked = Some(now);
        // A source that does not answer now is asked again later.
        let Ok(Some(view)) = self.open_work(parameters) else { return };
        let is_open =
            |transaction: &TransactionId| view.transactions.iter().any(|work| work.transaction == *transaction);
        let ended: Vec<TransactionId> = left_out.into_iter().filter(|transaction| !is_open(transaction)).collect();
        self.left_out_ended = (!ended.is_empty()).then_some((view.end, now, ended));
    }

    /// Warns of the oldest transaction that is open, when it is open for long (WARNLONGTRANS).
    pub(super) fn look_for_long(&mut self, extract: &Extract, parameters: &ExtractParameters) {
        let now = clock::now();
        if !self.long.as_ref().is_some_and(|long| long.is_due(now)) {
            return;
        }
        // A source that does not answer now is asked again at the next look; what we keep is looked at all the same.
        let work = self.open_work(parameters).ok().flatten().map(|view| view.transactions);
        let kept = extract.open().map(|open| open.open_transactions()).unwrap_or_default();
        let shown = merge(kept, work, &extract.left_out());
        if let Some(text) = self.long.as_mut().and_then(|long| long.look(now, shown)) {
            self.journal.say(Code::TransactionLong, text);
        }
    }

    /// Forgets those that had ended, once everything was read that had been written then.
    pub(super) fn forget_ended(&mut self, extract: &mut Extract) {
        if self.left_out_ended.as_ref().is_some_and(|(end, _, _)| extract.progress().position >= *end)
            && let Some((_, asked, ended)) = self.left_out_ended.take()
        {
            extract.forget_ended(asked, |transaction| !ended.contains(transaction));
        }
    }
}

fn place_lines(position: &LogPosition, log_file_bytes: Option<u64>) -> Vec<String> {
    Place::of(position, log_file_bytes).lines.into_iter().map(|(label, value)| format!("{label}: {value}")).collect()
}
