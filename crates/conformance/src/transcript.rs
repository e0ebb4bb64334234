//! Answers, and the lines a case writes while it runs, from which a watcher pieces them together.

use std::fmt;

/// The answer of a driver that reported a hazard instead of crashing.
pub const HAZARD: &str = "HAZARD";
/// The answer of a process that died of a bad address.
pub const SIGSEGV: &str = "SIGSEGV";
/// The answer of a call that did not come back in time.
pub const HANGS: &str = "HANGS";

/// What the driver answered to one probe.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Answer {
    /// What the probe is about.
    pub group: String,
    /// The probe, unique in its group.
    pub probe: String,
    /// The answer, as `answers.txt` writes it.
    pub answer: String,
}

impl Answer {
    /// Reads a line of `answers.txt` or of a case's output; `None` if it is not one.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, " | ").map(str::to_owned);
        let (group, probe, answer) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { group, probe, answer })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {} | {}", self.group, self.probe, self.answer)
    }
}

/// The answers of one case, read from the lines its process wrote.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    answers: Vec<Answer>,
    /// The group and probe that was announced and not answered yet.
    pending: Option<(String, String)>,
}

impl Transcript {
    /// Takes the next line; a line that is neither announcement nor answer is ignored.
    pub fn read_line(&mut self, line: &str) {
        if let Some(asking) = line.strip_prefix("? ") {
            let probe = asking.split_once(" | ");
            self.pending = probe.map(|(group, probe)| (group.to_owned(), probe.to_owned()));
        } else if let Some(answer) = Answer::parse(line) {
            self.pending = None;
            self.answers.push(answer);
        }
    }

    /// Ends the transcript of `case`. `ended` says how the process ended if not well; that is the
    /// answer to what was being asked.
    #[must_use]
    pub fn end(mut self, case: &str, ended: Option<&str>) -> Vec<Answer> {
        if let Some(ended) = ended {
            let (group, probe) = self
                .pending
                .take()
                .unwrap_or_else(|| (format!("case {case}"), String::from("the process ended")));
            self.answers.push(Answer { group, probe, answer: ended.to_owned() });
        }
        self.answers
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, SIGSEGV, Transcript};

    fn read(lines: &[&str], ended: Option<&str>) -> Vec<String> {
        let mut transcript = Transcript::default();
        lines.iter().for_each(|line| transcript.read_line(line));
        transcript.end("some case", ended).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_answer_may_hold_the_separator() {
        let answer = Answer::parse("a | b | c | d").unwrap();
        assert_eq!(answer.answer, "c | d");
        assert_eq!(answer.to_string(), "a | b | c | d");
        assert_eq!(Answer::parse("no answer | here"), None);
    }

    #[test]
    fn a_crash_answers_the_probe_that_was_being_asked() {
        let lines = ["g | one | SUCCESS", "a stray line", "? g | two"];
        assert_eq!(read(&lines, Some(SIGSEGV)), ["g | one | SUCCESS", "g | two | SIGSEGV"]);
    }

    #[test]
    fn a_crash_after_the_answer_is_the_cases_own() {
        let lines = ["? g | one", "g | one | SUCCESS"];
        let expected = ["g | one | SUCCESS", "case some case | the process ended | SIGSEGV"];
        assert_eq!(read(&lines, Some(SIGSEGV)), expected);
        assert_eq!(read(&lines, None), expected[..1]);
    }
}
