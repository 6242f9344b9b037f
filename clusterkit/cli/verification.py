"""`up --verify`: verifies the job before it begins, and hands the warm server of the verification on to the job."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from clusterkit.cli.terminal import say
from clusterkit.text.printable import printable_lines
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import Shape
from clusterkit.words.outcome import NOT_AS_ASKED
from clusterkit.words.verification import Equality, parse_request

if TYPE_CHECKING:
    from clusterkit.job.options import GivenOptions
    from clusterkit.supervisor.prepare import Prepared
    from clusterkit.warm.warm_client import WarmSession
    from clusterkit.words.job import JobSpec
    from clusterkit.words.verification import Verification, VerifyRequest

HINT = "Nobody has verified that these workers compute what one process does. Add --verify, or examine the program: {}"


class NotVerified(ClusterkitError):
    """The job does not begin, since --verify required and its first steps differ or can't be compared."""

    exit_code = NOT_AS_ASKED


class VerifiedJob(NamedTuple):
    """A job with its verdict, and the session whose warm server the job can use; None if there is no such server."""

    prepared: Prepared
    session: WarmSession | None = None


def verified(prepared: Prepared, options: GivenOptions, session: WarmSession | None, quiet: bool) -> VerifiedJob:
    """Verify the job if --verify requests it. `session` is that of the Python process that started the run, if any.

    Raises NotVerified if the verdict is required to be "equal".
    """
    request = parse_request(prepared.job.verify)
    if request is None or prepared.job.shape is Shape.SINGLE or prepared.continues:
        return VerifiedJob(prepared)
    verdict, own_session = _verdict(prepared.job, options, request, session, quiet)
    if request.required and verdict.equality is not Equality.EQUAL:
        told = "\n".join(verdict.lines)
        raise NotVerified(f"{told}\nThe job does not begin, since --verify required.")
    return VerifiedJob(replace(prepared, verification=verdict), own_session)


def _verdict(
    job: JobSpec, options: GivenOptions, request: VerifyRequest, session: WarmSession | None, quiet: bool
) -> tuple[Verification, WarmSession | None]:
    from clusterkit.api.supervisor import sharing
    from clusterkit.chaos.trial import CannotRun
    from clusterkit.cli.commands.campaign import Stopped, stopping_on_signals
    from clusterkit.exam.verdict import not_comparable
    from clusterkit.exam.verifying import Verifier, met_first
    from clusterkit.supervisor.prepare import gather

    met_first(job)
    verifier = Verifier(job, gather(options), request)  # with the options of the job file, so that some can be left out
    if (verdict := verifier.known()) is not None:
        return verdict, None
    if not quiet:
        steps = "the first step" if request.steps == 1 else f"the first {request.steps} steps"
        say(printable_lines(f"verifying {steps} of {job.program} against one process …"))
    with sharing(session) as shared:
        try:
            with stopping_on_signals():
                return verifier.verify(), shared
        except Stopped as stopped:
            sys.exit(128 + stopped.number)
        except CannotRun as error:
            return not_comparable(str(error)), shared
        finally:
            verifier.close()


def hint(job: JobSpec) -> str | None:
    """Return a hint about --verify for a job of several training tasks whose program was never verified or examined."""
    if job.shape is not Shape.MULTI_WORKER or job.verify != "no" or job.part_of is not None or job.hosts.count:
        return None
    from clusterkit.exam.verifying import met_first
    from clusterkit.job.options import command_of

    if not met_first(job):
        return None
    examined = replace(job, faults=(), resume=None, tensorboard=False, dashboard=False, dashboard_control=False)
    return HINT.format(command_of(examined).replace("clusterkit up", "clusterkit exam", 1))
