/// An event of a run. A number is that of a member or of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Calls have used all units of a member or none, and it asks for more.
    Ask(usize, bool),
    /// The server answers a request. Meanwhile calls have used all units of the member or none.
    Serve(usize, bool),
    /// The time goes on. Requests that are still on their way come later.
    Tick,
    /// The server gets the request twice.
    Repeat(usize),
    /// The server gets a request before an earlier one of the same member, from another connection.
    Overtake(usize),
    LoseRequest(usize),
    LoseReply(usize),
    Die(usize),
    Stop(usize),
    Continue(usize),
    Leave(usize),
    GoAway,
    ComeBack,
    /// The server starts again and has lost everything.
    Restart,
    /// Another server goes on with the state of half a second to a second ago.
    FailOver,
    StepBack,
    StepForward,
}

impl Event {
    /// Returns whether this event is one of the faults that a run may have.
    pub(crate) const fn is_fault(self) -> bool {
        !matches!(
            self,
            Self::Ask(..) | Self::Serve(..) | Self::Tick | Self::Continue(_) | Self::ComeBack
        )
    }
}
