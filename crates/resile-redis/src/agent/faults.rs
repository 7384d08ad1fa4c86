/// The exchanges that fail, and the reasons that operators were told. An outage lasts for many rounds of
/// several exchanges each, which fail for one reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// The exchanges without an answer since they failed, each with the kind of its last reason.
    told: Vec<(&'static str, String)>,
    /// Those of this round that are news: each reason in words with its exchanges.
    news: Vec<(String, Vec<&'static str>)>,
}

impl Faults {
    /// Notes that an exchange has an answer.
    pub(super) fn answered(&mut self, exchange: &'static str) {
        self.told.retain(|(told, _)| *told != exchange);
    }

    /// Notes that an exchange failed for a reason. Its words may have a number that differs from try to try, and
    /// its kind has none.
    pub(super) fn failed(&mut self, exchange: &'static str, kind: &str, reason: &str) {
        match self.told.iter_mut().find(|(told, _)| *told == exchange) {
            Some((_, told)) if told == kind => return,
            Some((_, told)) => kind.clone_into(told),
            None => self.told.push((exchange, kind.to_owned())),
        }
        match self.news.iter_mut().find(|(of, _)| of == reason) {
            Some((_, exchanges)) => exchanges.push(exchange),
            None => self.news.push((reason.to_owned(), vec![exchange])),
        }
    }

    /// Returns each new reason once with the exchanges that failed for it: "requests, members".
    pub(super) fn news(&mut self) -> impl Iterator<Item = (String, String)> {
        let news = std::mem::take(&mut self.news);
        news.into_iter().map(|(reason, exchanges)| (exchanges.join(", "), reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_news_once_for_each_exchange_until_it_has_an_answer() {
        let mut faults = Faults::default();
        let mut round = |failed: &[(&'static str, &str)], answered: &[&'static str]| {
            for (exchange, words) in failed {
                faults.failed(exchange, words.split(' ').next().unwrap(), words);
            }
            for exchange in answered {
                faults.answered(exchange);
            }
            faults
                .news()
                .map(|(exchanges, reason)| format!("{exchanges}: {reason}"))
                .collect::<Vec<_>>()
        };
        let none: [String; 0] = [];
        let all = [("members", "late"), ("hold", "reset"), ("votes", "late")];
        let told = round(&all, &[]);
        assert_eq!(told, ["members, votes: late", "hold: reset"]);
        assert_eq!(round(&all, &["budget"]), none);
        assert_eq!(round(&[("hold", "late"), ("votes", "late")], &[]), ["hold: late"]);
        assert_eq!(round(&[], &["votes", "hold"]), none);
        assert_eq!(round(&all, &[]), ["hold: reset", "votes: late"]);
        let late =
            ["late 100ms", "late 200ms"].map(|words| [("members", words), ("limits", words)]);
        assert_eq!(round(&late[0], &[]), ["limits: late 100ms"]);
        assert_eq!(round(&late[1], &[]), none, "the time is not a reason");
    }
}
